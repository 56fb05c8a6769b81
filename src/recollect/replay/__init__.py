"""The replay room: deciding what is trained on again. It decides, it never stores."""
