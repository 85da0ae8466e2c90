from django.urls import path

from webhooks import views

urlpatterns = [
    path("webhook", views.WebhookView.as_view()),
    path("webhook-events", views.EventsView.as_view()),
    path("webhook-events/test", views.TestEventView.as_view()),
    path("webhook-events/<str:event_id>", views.EventView.as_view()),
    path("webhook-events/<str:event_id>/resend", views.ResendView.as_view()),
]
