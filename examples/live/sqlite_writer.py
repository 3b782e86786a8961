"""Commits rows to an SQLite database and says which, or compares the rows that were said.

    sqlite_writer.py write DATABASE JOURNAL_MODE CYCLE    a line per commit, until it is killed or the disk goes away
    sqlite_writer.py check DATABASE ACKED                 exit status 1 and a line for whatever is missing or wrong
"""

import hashlib
import os
import random
import sqlite3
import sys


def digest(text):
    return hashlib.sha1(text.encode()).hexdigest()


def write(database, mode, cycle):
    db = sqlite3.connect(database, isolation_level=None)
    db.execute(f"pragma journal_mode={mode}")
    # EXTRA also syncs the directory of a deleted journal; WAL needs FULL.
    db.execute(f"pragma synchronous={'FULL' if mode == 'WAL' else 'EXTRA'}")
    db.execute("create table if not exists t(id text primary key, body text, digest text)")
    number = 0
    while True:
        rows = []
        for _ in range(random.randint(1, 8)):
            number += 1
            body = os.urandom(random.randint(10, 3000)).hex()
            rows.append((f"{cycle}.{number}", body, digest(body)))
        db.execute("begin immediate")
        db.executemany("insert into t values(?, ?, ?)", rows)
        db.execute("commit")
        for name, _, of_body in rows:
            print(name, of_body, flush=True)


def check(database, acked):
    db = sqlite3.connect(database)
    faults = [] if db.execute("pragma integrity_check").fetchone()[0] == "ok" else ["integrity_check"]
    # The first kill may come before the table.
    has_table = db.execute("select count(*) from sqlite_master where name = 't'").fetchone()[0] == 1
    stored = db.execute("select id, body, digest from t") if has_table else []
    rows = {name: (body, of_body) for name, body, of_body in stored}
    faults += [name for name, (body, of_body) in rows.items() if digest(body) != of_body]
    for line in open(acked):
        if not line.endswith("\n"):
            continue
        name, of_body = line.split()
        if name not in rows or rows[name][1] != of_body:
            faults.append(name)
    print("\n".join(f"FAULT {fault}" for fault in faults) or f"{len(rows)} rows")
    sys.exit(bool(faults))


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
