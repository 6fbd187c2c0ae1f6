"""Webhooks as GitHub sends them, in the shapes that it documents, for repositories that do not exist."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zlib import crc32

__all__ = ["check_suite", "comment_created", "issue_event", "push"]

_API = "https://api.github.com"
_WEB = "https://github.com"
_USER_LINKS = (
    ("followers_url", "/followers"),
    ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"),
    ("starred_url", "/starred{/owner}{/repo}"),
    ("subscriptions_url", "/subscriptions"),
    ("organizations_url", "/orgs"),
    ("repos_url", "/repos"),
    ("events_url", "/events{/privacy}"),
    ("received_events_url", "/received_events"),
)
_REPOSITORY_LINKS = (
    ("forks_url", "/forks"),
    ("keys_url", "/keys{/key_id}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("teams_url", "/teams"),
    ("hooks_url", "/hooks"),
    ("issue_events_url", "/issues/events{/number}"),
    ("events_url", "/events"),
    ("assignees_url", "/assignees{/user}"),
    ("branches_url", "/branches{/branch}"),
    ("tags_url", "/tags"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("trees_url", "/git/trees{/sha}"),
    ("statuses_url", "/statuses/{sha}"),
    ("languages_url", "/languages"),
    ("commits_url", "/commits{/sha}"),
    ("comments_url", "/comments{/number}"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("contents_url", "/contents/{+path}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("merges_url", "/merges"),
    ("issues_url", "/issues{/number}"),
    ("pulls_url", "/pulls{/number}"),
    ("milestones_url", "/milestones{/number}"),
    ("labels_url", "/labels{/name}"),
    ("releases_url", "/releases{/id}"),
    ("deployments_url", "/deployments"),
)
_COLOURS = {"bug": "d73a4a", "question": "d876e3", "urgent": "b60205", "good first issue": "7057ff"}
_REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


def issue_event(action: str, repository: str, issue: dict[str, Any], sender: str, label: str = "") -> dict[str, Any]:
    """``issues``: opened, labeled, closed …"""
    payload = {"action": action, "issue": _issue(repository, issue)}
    if label:
        payload["label"] = _label(repository, label)
    return {**payload, **_about(repository, sender)}


def comment_created(repository: str, issue: dict[str, Any], sender: str, text: str, number: int) -> dict[str, Any]:
    """``issue_comment``: created."""
    name = f"{_API}/repos/{repository}"
    comment = {
        "url": f"{name}/issues/comments/{number}",
        "html_url": f"{_WEB}/{repository}/issues/{issue['number']}#issuecomment-{number}",
        "issue_url": f"{name}/issues/{issue['number']}",
        "id": number,
        "node_id": _node("IC", number),
        "user": _user(sender),
        "created_at": _now(),
        "updated_at": _now(),
        "author_association": "CONTRIBUTOR",
        "body": text,
        "reactions": _reactions(f"{name}/issues/comments/{number}"),
        "performed_via_github_app": None,
    }
    return {
        "action": "created",
        "issue": _issue(repository, issue),
        "comment": comment,
        **_about(repository, sender),
    }


def push(repository: str, sender: str, before: str, after: str, message: str) -> dict[str, Any]:
    """``push``: one commit on the main branch."""
    person = {"name": sender.title(), "email": f"{sender}@example.com", "username": sender}
    commit = {
        "id": after,
        "tree_id": before[::-1],
        "distinct": True,
        "message": message,
        "timestamp": _now(),
        "url": f"{_WEB}/{repository}/commit/{after}",
        "author": person,
        "committer": {"name": "GitHub", "email": "noreply@github.com", "username": "web-flow"},
        "added": [],
        "removed": [],
        "modified": ["src/handlers.py", "tests/test_handlers.py"],
    }
    return {
        "ref": "refs/heads/main",
        "before": before,
        "after": after,
        **_about(repository, sender),
        "pusher": {"name": sender, "email": person["email"]},
        "created": False,
        "deleted": False,
        "forced": False,
        "base_ref": None,
        "compare": f"{_WEB}/{repository}/compare/{before[:12]}...{after[:12]}",
        "commits": [commit],
        "head_commit": commit,
    }


def check_suite(repository: str, sender: str, before: str, after: str, number: int) -> dict[str, Any]:
    """``check_suite``: requested."""
    name = f"{_API}/repos/{repository}"
    suite = {
        "id": number,
        "node_id": _node("CS", number),
        "head_branch": "main",
        "head_sha": after,
        "status": "queued",
        "conclusion": None,
        "url": f"{name}/check-suites/{number}",
        "before": before,
        "after": after,
        "pull_requests": [],
        "created_at": _now(),
        "updated_at": _now(),
        "rerequestable": True,
        "runs_rerequestable": True,
        "latest_check_runs_count": 0,
        "check_runs_url": f"{name}/check-suites/{number}/check-runs",
        "head_commit": {"id": after, "message": "See the diff", "timestamp": _now()},
    }
    return {"action": "requested", "check_suite": suite, **_about(repository, sender)}


def _about(repository: str, sender: str) -> dict[str, Any]:
    return {
        "repository": _repository(repository),
        "sender": _user(sender),
        "installation": {"id": 2311213, "node_id": _node("MDIzOk", 2311213)},
    }


def _issue(repository: str, issue: dict[str, Any]) -> dict[str, Any]:
    name, number = f"{_API}/repos/{repository}", issue["number"]
    return {
        "url": f"{name}/issues/{number}",
        "repository_url": name,
        "labels_url": f"{name}/issues/{number}/labels{{/name}}",
        "comments_url": f"{name}/issues/{number}/comments",
        "events_url": f"{name}/issues/{number}/events",
        "html_url": f"{_WEB}/{repository}/issues/{number}",
        "id": _id(f"{repository}#{number}"),
        "node_id": _node("I", number),
        "number": number,
        "title": issue["title"],
        "user": _user(issue["user"]),
        "labels": [_label(repository, label) for label in issue["labels"]],
        "state": issue["state"],
        "locked": False,
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "comments": issue["comments"],
        "created_at": issue["created_at"],
        "updated_at": _now(),
        "closed_at": _now() if issue["state"] == "closed" else None,
        "author_association": "CONTRIBUTOR",
        "active_lock_reason": None,
        "body": f"{issue['title']}\r\n\r\nSteps to reproduce:\r\n\r\n1. Start two of them.\r\n2. Wait.",
        "reactions": _reactions(f"{name}/issues/{number}"),
        "timeline_url": f"{name}/issues/{number}/timeline",
        "performed_via_github_app": None,
        "state_reason": "completed" if issue["state"] == "closed" else None,
    }


def _label(repository: str, label: str) -> dict[str, Any]:
    return {
        "id": _id(f"{repository}:{label}"),
        "node_id": _node("LA", _id(label)),
        "url": f"{_API}/repos/{repository}/labels/{label.replace(' ', '%20')}",
        "name": label,
        "color": _COLOURS.get(label, "ededed"),
        "default": label in _COLOURS,
        "description": None,
    }


def _repository(full_name: str) -> dict[str, Any]:
    owner, _, name = full_name.partition("/")
    url = f"{_API}/repos/{full_name}"
    return {
        "id": _id(full_name),
        "node_id": _node("R", _id(full_name)),
        "name": name,
        "full_name": full_name,
        "private": False,
        "owner": {**_user(owner), "type": "Organization"},
        "html_url": f"{_WEB}/{full_name}",
        "description": f"The {name} of {owner}",
        "fork": False,
        "url": url,
        **{field: f"{url}{path}" for field, path in _REPOSITORY_LINKS},
        "created_at": "2021-03-02T09:12:31Z",
        "clone_url": f"{_WEB}/{full_name}.git",
        "ssh_url": f"git@github.com:{full_name}.git",
        "default_branch": "main",
        "language": "Python",
        "open_issues_count": 12,
        "visibility": "public",
        "topics": ["automation"],
    }


def _user(login: str) -> dict[str, Any]:
    number, url = _id(login), f"{_API}/users/{login}"
    return {
        "login": login,
        "id": number,
        "node_id": _node("U", number),
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{_WEB}/{login}",
        **{field: f"{url}{path}" for field, path in _USER_LINKS},
        "type": "Bot" if login.endswith("[bot]") else "User",
        "site_admin": False,
    }


def _reactions(url: str) -> dict[str, Any]:
    return {"url": f"{url}/reactions", "total_count": 0, **dict.fromkeys(_REACTIONS, 0)}


def _id(name: str) -> int:
    """The same number for the same name."""
    return crc32(name.encode()) & 0x3FFFFFFF


def _node(kind: str, number: int) -> str:
    return f"{kind}_kwDOA{number:x}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
