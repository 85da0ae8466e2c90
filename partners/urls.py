from django.urls import path

from partners.failed_calls_api import FailedCallsView

urlpatterns = [path("failed-calls", FailedCallsView.as_view())]
