from django.urls import path

from authorizations import holder_views, views

urlpatterns = [
    path("authorizations", views.OpenView.as_view()),
    path("authorizations/<str:authorization_id>", views.SessionView.as_view()),
    path("authorizations/<str:authorization_id>/dossier", views.DossierView.as_view()),
    path("authorizations/<str:authorization_id>/revoke", views.RevokeView.as_view()),
    path("authorizations/public/<str:authorization_id>", holder_views.HolderPageView.as_view(), name="holder-page"),
    path("authorizations/public/<str:authorization_id>/terms", holder_views.TermsView.as_view()),
    path("authorizations/public/<str:authorization_id>/accept", holder_views.AcceptView.as_view(), name="accept"),
    path("authorizations/public/<str:authorization_id>/code", holder_views.CodeView.as_view(), name="phone-code"),
    path(
        "authorizations/public/<str:authorization_id>/revoke",
        holder_views.RevokeOnPageView.as_view(),
        name="revoke-on-page",
    ),
    path("authorizations/public/<str:authorization_id>/decline", holder_views.DeclineView.as_view(), name="decline"),
]
