"""Prints the agent's snapshot for each line on standard input: its port is in another network namespace than its user's.

Usage: ask.py PORT
"""

import json
import sys
import urllib.request


def main():
    url = f"http://127.0.0.1:{sys.argv[1]}/snapshot.json"
    for _ in sys.stdin:
        with urllib.request.urlopen(url, timeout=30) as answer:
            print(json.dumps(json.load(answer)), flush=True)


if __name__ == "__main__":
    main()
