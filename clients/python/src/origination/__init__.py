"""A partner's client of the origination API. `types` has the bodies, made from the service's schema."""

from origination.calls import ApiError as ApiError
from origination.calls import NoAnswer as NoAnswer
from origination.calls import OriginationError as OriginationError
from origination.client import Client as Client
from origination.client import OutcomeUnknown as OutcomeUnknown
from origination.client import Stream as Stream
from origination.webhooks import Event as Event
from origination.webhooks import SignatureError as SignatureError
from origination.webhooks import sign as sign
from origination.webhooks import verify as verify
