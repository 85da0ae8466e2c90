from django.urls import path

from authorizations import views

urlpatterns = [
    path("authorizations", views.OpenView.as_view()),
    path("authorizations/<str:authorization_id>", views.SessionView.as_view()),
    path("authorizations/<str:authorization_id>/revoke", views.RevokeView.as_view()),
    path("authorizations/public/<str:authorization_id>", views.HolderPageView.as_view(), name="holder-page"),
    path("authorizations/public/<str:authorization_id>/terms", views.TermsView.as_view()),
    path("authorizations/public/<str:authorization_id>/accept", views.AcceptView.as_view(), name="accept"),
    path("authorizations/public/<str:authorization_id>/decline", views.DeclineView.as_view(), name="decline"),
]
