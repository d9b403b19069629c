import CipherStore

/// The cost of a commit beside the writes in it: the same writes in a store without a repository.
enum CaptureWork {
    /// One commit of many rows.
    static func inserting(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try measure(work, comparison, rows: 100_000, commits: 1)
    }

    /// Commits of one row.
    static func singleRows(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try measure(work, comparison, rows: 1, commits: 1_000)
    }

    /// One commit that updates many rows, each by a statement of its own.
    static func updating(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let (folder, rows) = (try BenchmarkFolder(), 100_000)
        let tracked = try SyncedStore(folder)
        let plain = try SyncedStore(folder, tracked: false)
        let insert: (Database) throws -> Void = { db in for row in 0..<rows { try SyncedStore.insert(db, row) } }
        let update: (Database) throws -> Void = { db in
            let statement = try db.cachedStatement(sql: "UPDATE t SET c1 = c1 + 1, c3 = c3 + 1 WHERE id = ?")
            for row in 0..<rows { try statement.execute(arguments: [row + 1]) }
        }
        try tracked.commit(insert)
        try plain.store.write(insert)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: rows,
            prepare: {
                try tracked.store.checkpoint()
                try plain.store.checkpoint()
            },
            library: { try tracked.commit(update) }, baseline: { try plain.store.write(update) })
    }

    private static func measure(
        _ work: Work, _ comparison: Comparison, rows: Int, commits: Int
    ) throws -> Measurement {
        let folder = try BenchmarkFolder()
        let tracked = try SyncedStore(folder)
        let plain = try SyncedStore(folder, tracked: false)
        // Each run adds rows of its own, so that both tables grow alike.
        var next = (tracked: 0, plain: 0)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: rows * commits,
            prepare: {
                try tracked.store.checkpoint()
                try plain.store.checkpoint()
            },
            library: {
                for _ in 0..<commits {
                    try tracked.commit { db in
                        for row in 0..<rows { try SyncedStore.insert(db, next.tracked + row) }
                    }
                    next.tracked += rows
                }
            },
            baseline: {
                for _ in 0..<commits {
                    try plain.store.write { db in
                        for row in 0..<rows { try SyncedStore.insert(db, next.plain + row) }
                    }
                    next.plain += rows
                }
            })
    }
}
