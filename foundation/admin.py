"""The pages for the operators' own accounts, and for the audit trail.

Only superusers give roles. An operator who may change accounts could otherwise give himself every permission, or take
over an account with more permissions.
"""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from foundation.backoffice.admins import RobustAdmin
from foundation.backoffice.trail import AuditEntryAdmin

__all__ = ["AuditEntryAdmin", "OperatorAdmin"]

admin.site.unregister((User, Group))


@admin.register(User)
class OperatorAdmin(UserAdmin, RobustAdmin):  # type: ignore[misc]  # a paginator of its own
    """The accounts that may use the back office. Their permissions come from roles alone, which no page changes."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "roles", "first_name", "last_name", "email", "is_active", "is_staff")
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()
    lookup_allowed = RobustAdmin.lookup_allowed  # Django's own answers 400 for a password's
    add_fieldsets = ((None, {"fields": ("username", "password1", "password2", "is_staff", "groups")}),)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"is_staff": True, **super().get_changeform_initial_data(request)}

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        kwargs["widget"] = UnfoldAdminCheckboxSelectMultipleWidget
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        if field is not None:
            field.label, field.help_text = "Papéis", ""
            field.label_from_instance = _role
        return field

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        users: QuerySet[User] = super().get_queryset(request)
        return users.prefetch_related("groups")

    @admin.display(description="papéis")
    def roles(self, user: User) -> str:
        names = sorted(map(_role, user.groups.all()))
        return ", ".join([*(["superusuário"] if user.is_superuser else []), *names]) or "—"

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """The fieldsets. Only superusers see and change roles."""
        fieldsets = super().get_fieldsets(request, obj)
        permissions = (
            {"user_permissions"} if request.user.is_superuser else {"user_permissions", "is_superuser", "groups"}
        )
        return [
            (title, {**options, "fields": [name for name in options["fields"] if name not in permissions]})
            for title, options in fieldsets
        ]

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _has_more_permissions(obj, request)


def _role(group: Group) -> str:
    """The group's name on pages."""
    return group.name.removeprefix("Papel: ")


def _has_more_permissions(user: User | None, request: HttpRequest) -> bool:
    """True if `user` has a permission that the requesting user lacks. Inactive users count as active, because whoever
    may change an account could reactivate it."""
    if user is None or request.user.is_superuser:
        return False
    granted = Permission.objects.filter(Q(user=user) | Q(group__user=user)).select_related("content_type")
    return user.is_superuser or not request.user.has_perms(
        [f"{each.content_type.app_label}.{each.codename}" for each in granted]
    )
