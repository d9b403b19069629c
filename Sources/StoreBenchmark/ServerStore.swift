#if PostgreSQL
    import ChangesetSync
    import PostgreSQLRemote

    /// A server as the remote of a benchmark.
    enum ServerStore {
        static func make(_ url: String, _ store: SyncedStore) throws -> any ObjectStore {
            try PostgreSQLObjectStore(
                url: url, repository: store.repository.store().repository, sharedWithOthers: true)
        }
    }
#endif
