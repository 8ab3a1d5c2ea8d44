"""The verbs on sandboxes. ``resolve`` decides what is meant, ``starting`` makes containers, the rest are verbs."""
