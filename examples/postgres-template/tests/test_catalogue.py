"""``berth run -- bin/pg with python3 -m unittest -v``: the data that this workspace started with, and its own."""

import json
import os
import unittest
import urllib.request

from catalogue import IN_TEMPLATE
from database import query

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@unittest.skipUnless(os.environ.get("BERTH_DATA_DIR"), "no workspace: run this with berth run")
class Catalogue(unittest.TestCase):
    def test_the_data_of_the_template_is_there(self):
        found = query("SELECT count(*) AS books FROM books WHERE id <= :'last'::int", last=IN_TEMPLATE)
        self.assertEqual(found, [{"books": IN_TEMPLATE}])

    def test_the_cluster_is_a_copy_in_this_workspaces_data_directory(self):
        cluster = query("SELECT setting FROM pg_settings WHERE name = 'data_directory'")[0]["setting"]
        self.assertEqual(os.path.realpath(cluster), os.path.realpath(os.environ["BERTH_DATA_DIR"] + "/pg"))

    def test_the_web_application_answers_for_this_workspace(self):
        with DIRECT.open(f"http://127.0.0.1:{os.environ['BERTH_PORT_WEB']}/", timeout=10) as answer:
            front = json.load(answer)
        self.assertEqual(front["workspace"], os.environ["BERTH_SLUG"])
        self.assertEqual(front["books"], IN_TEMPLATE + len(front["added"]))


if __name__ == "__main__":
    unittest.main()
