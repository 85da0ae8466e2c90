from django.urls import path

from backoffice.figures import views

app_name = "figures"
urlpatterns = [
    path("banks/", views.banks, name="banks"),
    path("banks/<str:name>/", views.bank, name="bank"),
    path("funnel/", views.funnel, name="funnel"),
]
