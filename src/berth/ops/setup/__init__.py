"""What the verbs share: finding a workspace, its locks and identity, preparing it, finishing what was interrupted."""
