Play.data.cache_slots = {"most":16,"bytes":23040};
