from django.urls import path

from proposals import views

urlpatterns = [
    path("proposals", views.ProposalsView.as_view()),
    path("proposals/search", views.SearchView.as_view()),
    path("proposals/<str:proposal_id>", views.ProposalView.as_view()),
    path("proposals/<str:proposal_id>/formalize", views.FormalizeView.as_view()),
    path("proposals/<str:proposal_id>/cancel", views.CancelView.as_view()),
    path("providers", views.ProvidersView.as_view()),
    path("providers/<str:name>", views.ProviderView.as_view()),
    path("providers/<str:name>/options/<str:field>", views.OptionsView.as_view()),
    path("banks", views.BanksView.as_view()),
    path("bank-callbacks/<str:name>", views.BankCallbackView.as_view()),
]
