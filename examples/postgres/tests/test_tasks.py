"""``berth run -- bin/pg with python3 -m unittest -v``: this workspace's database, then its web application."""

import json
import os
import unittest
import urllib.request

from database import QueryFailed, query

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(path="/", method="GET", text=None):
    url = f"http://127.0.0.1:{os.environ['BERTH_PORT_WEB']}{path}"
    request = urllib.request.Request(url, data=text.encode() if text else None, method=method)
    with DIRECT.open(request, timeout=10) as answer:
        return json.load(answer)


@unittest.skipUnless(os.environ.get("BERTH_DATA_DIR"), "no workspace: run this with berth run")
class Database(unittest.TestCase):
    def test_the_cluster_is_this_workspaces_own(self):
        cluster = query("SELECT setting FROM pg_settings WHERE name = 'data_directory'")[0]["setting"]
        self.assertEqual(os.path.realpath(cluster), os.path.realpath(os.environ["BERTH_DATA_DIR"] + "/pg"))

    def test_a_value_is_never_taken_for_sql(self):
        text = "it's; DROP TABLE tasks; -- \\ :'x' ü"
        self.assertEqual(query("SELECT :'text'::text AS text", text=text), [{"text": text}])

    def test_a_wrong_statement_says_what_is_wrong(self):
        with self.assertRaisesRegex(QueryFailed, "nowhere"):
            query("SELECT * FROM nowhere")

    def test_the_web_application_adds_lists_and_deletes(self):
        added = ask(method="POST", text="from the tests")["added"][0]
        try:
            answer = ask()
            self.assertEqual(answer["workspace"], os.environ["BERTH_SLUG"])
            self.assertIn({**added, "done": False}, answer["tasks"])
        finally:
            self.assertEqual(ask(f"/{added['id']}", "DELETE")["deleted"], [{"id": added["id"]}])


if __name__ == "__main__":
    unittest.main()
