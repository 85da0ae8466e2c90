from django.urls import path

from consultas import views

urlpatterns = [
    path("consultas", views.AggregatedQueryView.as_view()),
    path("consultas/stream", views.StreamedQueryView.as_view()),
    path("consultas/<str:query_id>", views.QueryView.as_view()),
    path("consultas/<str:query_id>/stream", views.QueryStreamView.as_view()),
    path("providers/<str:name>/consultas", views.IndividualQueryView.as_view()),
    path("auction-proposals/<str:proposal_key>", views.AuctionLookupView.as_view()),
]
