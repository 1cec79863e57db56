"""Uses every system of a node through the client that openapi-python-client makes from its description. Run by a test:
python use.py <url> <token>"""

import sys
from typing import TypeVar
from uuid import uuid4

from syncline_client import AuthenticatedClient
from syncline_client.api.access import audit_list, keys_list
from syncline_client.api.health import health_ready, nodes_list
from syncline_client.api.kv import kv_list, kv_read, kv_remove, kv_write
from syncline_client.api.lock import locks_acquire, locks_list, locks_release, locks_renew
from syncline_client.api.outbox import entities_read, entities_write, outbox_entries
from syncline_client.api.queue import queues_enqueue, queues_keys, queues_remove_many, queues_result
from syncline_client.api.state import spaces_entities, state_list, state_read, state_remove_entity, state_write
from syncline_client.api.viewer import jobs_list, viewer_beat, viewer_summary
from syncline_client.models import (
    Acquire,
    Enqueue,
    EnqueueKind,
    ErrorBody,
    Forget,
    Heartbeat,
    KeyState,
    QueuesKeysState,
    Release,
    Renew,
    StateWriteBody,
    Write,
)
from syncline_client.models.outbox_entries_state import OutboxEntriesState

T = TypeVar("T")


def taken(answer: T | ErrorBody | None) -> T:
    """The answer, or the error with its code."""
    assert answer is not None, "no answer that the description knows"
    assert not isinstance(answer, ErrorBody), answer
    return answer


def main(url: str, token: str) -> None:
    client = AuthenticatedClient(base_url=url, token=token)

    # kv
    taken(kv_write.sync("from/python", client=client, body=Write(value="hello", ttl_sec=60)))
    assert taken(kv_read.sync("from/python", client=client)).value == "hello"
    assert len(taken(kv_list.sync(client=client, q="PYTHON")).entries) == 1
    assert taken(kv_remove.sync("from/python", client=client)).deleted

    # lock
    lease = taken(locks_acquire.sync("nightly", client=client, body=Acquire(holder="python", ttl_ms=30_000)))
    second = locks_acquire.sync("nightly", client=client, body=Acquire(holder="other"))
    assert isinstance(second, ErrorBody) and (second.code, second.holder) == ("held", "python"), second
    taken(locks_renew.sync("nightly", client=client, body=Renew(lease_id=lease.lease_id, ttl_ms=30_000)))
    assert taken(locks_list.sync(client=client, q="night")).locks[0].token == lease.token
    assert taken(locks_release.sync("nightly", client=client, body=Release(lease_id=lease.lease_id))).released

    # state
    written = state_write.sync_detailed("cart", "item-1", client=client, body=StateWriteBody.from_dict({"amount": 1}))
    etag = written.headers["etag"]
    taken(state_write.sync("cart", "item-1", client=client, body=StateWriteBody.from_dict({"amount": 2}), if_match=etag))
    late = state_write.sync("cart", "item-1", client=client, body=StateWriteBody.from_dict({}), if_match=etag)
    assert isinstance(late, ErrorBody) and late.code == "changed-meanwhile", late
    assert taken(state_read.sync("cart", "item-1", client=client)).value["amount"] == 2
    assert len(taken(spaces_entities.sync("cart", client=client)).entities) == 1
    assert taken(state_list.sync(client=client)).spaces[0].space == "cart"
    assert taken(state_remove_entity.sync("cart", "item-1", client=client)).deleted

    # queue
    keys = Enqueue(kind=EnqueueKind.NEW, keys=["stone", "water"])
    assert taken(queues_enqueue.sync("words", client=client, body=keys)).added == 2
    assert taken(queues_result.sync("words", "stone", client=client, wait_ms=10_000)).state == KeyState.DONE
    found = taken(queues_keys.sync("words", client=client, state=QueuesKeysState.DONE, q="stone")).keys
    assert [each.key for each in found] == ["stone"]
    assert taken(queues_remove_many.sync("words", client=client, body=Forget(keys=["stone"]))).removed == 1

    # viewer and jobs
    taken(viewer_beat.sync(client=client, body=Heartbeat(session_id=str(uuid4()), visible=True)))
    assert taken(viewer_summary.sync(client=client)).viewers == 1
    assert [job.name for job in taken(jobs_list.sync(client=client)).jobs] == ["report"]

    # outbox and inbox
    taken(entities_write.sync("note", "n-1", client=client, body={"text": "from Python"}))
    assert taken(entities_read.sync("note", "n-1", client=client)).payload["text"] == "from Python"
    entries = taken(outbox_entries.sync(client=client, state=OutboxEntriesState.PENDING, q="n-1")).entries
    assert len(entries) == 1

    # access, nodes, health
    taken(keys_list.sync(client=client))
    assert len(taken(audit_list.sync(client=client, limit=1)).entries) == 1
    assert len(taken(nodes_list.sync(client=client)).nodes) == 1
    assert taken(health_ready.sync(client=client)).status == "ready"
    print("every system answered")


main(*sys.argv[1:3])
