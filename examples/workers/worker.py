"""A worker in Python, with nothing but the standard library.

    SYNCLINE_URL=http://127.0.0.1:3000 SYNCLINE_TOKEN=... python3 worker.py sums

Adds up the numbers in the input of each key. It claims keys in batches and is told of new ones as they come; a batch that it
does not finish because it dies comes back to the queue when its lease is over.
"""

import json
import os
import sys
import urllib.error
import urllib.request

NODE = os.environ.get("SYNCLINE_URL", "http://127.0.0.1:3000")
TOKEN = os.environ.get("SYNCLINE_TOKEN")


def ask(queue, verb, body):
    request = urllib.request.Request(
        f"{NODE}/api/queues/{queue}/{verb}",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"} | ({"authorization": f"Bearer {TOKEN}"} if TOKEN else {}),
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def work(task):
    numbers = task.get("input") or []
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError(f"{task['key']} is no list of numbers")
    return {"total": sum(numbers), "by": "python"}


def main(queue):
    while True:
        for task in ask(queue, "claim", {"max": 10, "waitMs": 20_000, "leaseMs": 60_000})["tasks"]:
            try:
                body = {"tasks": [{"token": task["token"], "result": work(task)}]}
                verb = "complete"
            except ValueError as error:
                body = {"tasks": [{"token": task["token"], "reason": str(error), "cause": "refused"}]}
                verb = "fail"
            try:
                ask(queue, verb, body)
            except urllib.error.HTTPError as error:
                if error.code != 409:  # The lease was over: another worker has the key.
                    raise


if __name__ == "__main__":
    main(sys.argv[1])
