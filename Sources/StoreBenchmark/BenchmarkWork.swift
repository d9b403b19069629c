import CipherStore

/// One piece of work that is measured, with the ratio that the project aims at.
struct Work {
    let name: String
    let goal: Double?
    private let body: (Work, Comparison, Fixture) throws -> Measurement

    func measure(_ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try body(self, comparison, fixture)
    }

    /// All work, in the sections of the chart.
    static var sections: [(title: String, works: [Work])] {
        [
            (title: "Reading, beside plain C", works: reading),
            (title: "Writing, beside plain C", works: writing),
            (title: "Records, beside plain C that makes structs of rows", works: records),
            (title: "Tasks and SQL text, beside another form of the same call", works: otherForms),
            (title: "Opening, beside plain C", works: opening),
            (title: "Copying, beside what each row names", works: copying),
        ]
    }

    /// The work of `make bench-observation` that needs no other process.
    static var observation: [Work] {
        [
            Work(name: "10k point reads in one access: tracked / not", goal: 1.05, body: ObservationWork.pointReads),
            Work(name: "10k point reads, one access each: tracked / not", goal: 1.05) {
                try ObservationWork.oneReadEach($0, $1, $2)
            },
            Work(name: "500 lists of 100 records, one access each: tracked / not", goal: 1.05) {
                try ObservationWork.lists($0, $1, $2)
            },
            Work(name: "fetch 200k x 10 ints: tracked / not", goal: 1.05, body: ObservationWork.rows),
            Work(name: "2k single-row writes: 100 observers of other tables / none", goal: 1.05) {
                try ObservationWork.singleRows($0, $1, $2)
            },
            Work(name: "insert 50k x 10 ints: 100 observers of other tables / none", goal: 1.05) {
                try ObservationWork.manyRows($0, $1, $2)
            },
        ]
    }

    /// The cost of the history of changes, for `make bench-observation`.
    static var history: [Work] {
        [
            Work(name: "insert 100k x 10 ints: history / none", goal: 2.0) {
                try HistoryWork.inserting($0, $1, $2, columns: 10)
            },
            Work(name: "insert 100k x 1 int: history / none", goal: nil) {
                try HistoryWork.inserting($0, $1, $2, columns: 1)
            },
            Work(name: "2k single-row writes: history / none", goal: 1.5) {
                try HistoryWork.singleRows($0, $1, $2)
            },
            Work(name: "one UPDATE of 50k rows: history / none", goal: 2.5, body: HistoryWork.updating),
        ]
    }

    /// The cost of commits for writes, for `make bench-sync`.
    static var capture: [Work] {
        [
            Work(name: "insert 100k x 10 ints in one commit / one transaction", goal: 2.5, body: CaptureWork.inserting),
            Work(name: "1k commits of one row / transactions of one row", goal: 2.5, body: CaptureWork.singleRows),
            Work(
                name: "update 100k rows by keys in one commit / one transaction", goal: 2.5, body: CaptureWork.updating),
        ]
    }

    private static var reading: [Work] {
        [
            Work(name: "fetch 200k x 10 ints by position", goal: 1.10) {
                try ReadingWork.byPosition($0, $1, $2, cachePages: nil)
            },
            Work(name: "fetch 200k x 10 ints by position, pages cached", goal: 1.10) {
                try ReadingWork.byPosition($0, $1, $2, cachePages: ReadingWork.allPages)
            },
            Work(name: "fetch 200k x 10 ints by column name", goal: 1.35, body: ReadingWork.byName),
            Work(name: "Row.fetchAll of 200k x 10 ints", goal: 1.3, body: ReadingWork.allRows),
            Work(name: "10k point reads, one read each", goal: 1.5) {
                try PointReadingWork.oneReadEach($0, $1, $2, by: $2.pool(at: $2.path))
            },
            Work(name: "10k point reads, one read each, of a SharedStore", goal: 1.5) {
                try PointReadingWork.oneReadEach($0, $1, $2, by: $2.sharedStore())
            },
            Work(name: "10k point reads in one access", goal: 1.3, body: PointReadingWork.oneAccess),
            Work(name: "10k times Row.fetchOne of a statement in one access", goal: 1.4) {
                try PointReadingWork.rowsInOneAccess($0, $1, $2)
            },
            Work(name: "an empty read / BEGIN, snapshot, COMMIT", goal: nil) {
                try PointReadingWork.empty($0, $1, $2, by: $2.pool(at: $2.path))
            },
            Work(name: "an empty read of a SharedStore / BEGIN, snapshot, COMMIT", goal: nil) {
                try PointReadingWork.empty($0, $1, $2, by: $2.sharedStore())
            },
            Work(name: "fetch 50k x text, blob, double, date by position", goal: 1.2, body: MixedWork.fetching),
        ]
    }

    private static var writing: [Work] {
        [
            Work(name: "insert 100k x 10 ints, one prepared statement", goal: 1.15, body: WritingWork.integers),
            Work(name: "2k single-row writes", goal: 1.05) { work, comparison, fixture in
                try WritingWork.singleRows(work, comparison, fixture) { try fixture.pool(at: $0) }
            },
            Work(name: "2k single-row writes to a SharedStore", goal: 1.05) { work, comparison, fixture in
                try WritingWork.singleRows(work, comparison, fixture) {
                    try SharedStore.open(at: $0, unlockedBy: Fixture.keySource)
                }
            },
            Work(name: "insert 50k x text, blob, double, date", goal: 1.2, body: MixedWork.inserting),
        ]
    }

    private static var records: [Work] {
        [
            Work(name: "insert 100k records x 10 ints, hand-written", goal: 2.0) {
                try RecordWork.inserting($0, $1, $2) { IntegersByName(from: $0) }
            },
            Work(name: "insert 100k records x 10 ints, Codable", goal: 3.0) {
                try RecordWork.inserting($0, $1, $2) { CodableIntegers(from: $0) }
            },
            Work(name: "insert 50k records of text, blob, double, date, hand-written", goal: 1.6) {
                try RecordWork.insertingMixed($0, $1, $2)
            },
            Work(name: "fetch 200k records x 10 ints by position", goal: 1.15) {
                try RecordWork.fetching($0, $1, $2, IntegersByPosition.self) { $0.c0 + $0.c9 }
            },
            Work(name: "fetch 200k records x 10 ints by name", goal: 1.35) {
                try RecordWork.fetching($0, $1, $2, IntegersByName.self) { $0.c0 + $0.c9 }
            },
            Work(name: "fetch 200k records x 10 ints, Codable", goal: 2.0) {
                try RecordWork.fetching($0, $1, $2, CodableIntegers.self) { $0.c0 + $0.c9 }
            },
            Work(name: "fetch 50k records of text, blob, double, date, hand-written", goal: 1.4) {
                try RecordWork.fetchingMixed($0, $1, $2, Mixed.self) { Mixed.sum($0.text, $0.blob, $0.number) }
            },
            Work(name: "fetch 50k records of text, blob, double, date, Codable", goal: 1.8) {
                try RecordWork.fetchingMixed($0, $1, $2, CodableMixed.self) { Mixed.sum($0.text, $0.blob, $0.number) }
            },
            Work(name: "10k times Player.fetchOne(db, key:) in one access", goal: 2.0) {
                try PlayerWork.inOneAccess($0, $1, $2)
            },
            Work(name: "10k times Player.fetchOne(db, key:), one access each", goal: 2.2) {
                try PlayerWork.oneAccessEach($0, $1, $2)
            },
            Work(name: "10k times Player.fetchOne(db, key:) in one access, Codable", goal: nil) {
                try PlayerWork.codableInOneAccess($0, $1, $2)
            },
            Work(name: "10k requests with other values each, built and fetched", goal: nil) {
                try PlayerWork.requests($0, $1, $2)
            },
            Work(name: "including(all:): 1k authors, 10k books / two queries, hand-written", goal: 1.5) {
                try AssociationWork.includingAll($0, $1, $2, \.sum) {
                    try PlainAuthorWithBooks.fetchAll($0, PlainAuthor.including(all: PlainAuthor.books))
                }
            },
            Work(name: "including(all:): 1k authors, 10k books / two queries, Codable", goal: nil) {
                try AssociationWork.includingAll($0, $1, $2, \.sum) {
                    try AuthorWithBooks.fetchAll($0, Author.including(all: Author.books))
                }
            },
        ]
    }

    private static var otherForms: [Work] {
        [
            Work(name: "10k async point reads / the same, synchronous", goal: 4, body: AsyncWork.reads),
            Work(name: "10k hops to a queue and back / synchronous point reads", goal: nil, body: AsyncWork.hops),
            Work(name: "2k async single-row writes / the same, synchronous", goal: 1.5, body: AsyncWork.writes),
            Work(name: "10k times execute(sql:arguments:) / the cached statement", goal: nil) {
                try WritingWork.plainSQL($0, $1, $2)
            },
        ]
    }

    private static var opening: [Work] {
        [
            Work(name: "open a pool, 5 readers, by passphrase / 6 connections in parallel", goal: 0.35) {
                try OpeningWork.poolByPassphrase($0, $1, $2, connections: 6)
            },
            Work(name: "open a pool, 5 readers, by passphrase / one key derivation", goal: 1.1) {
                try OpeningWork.poolByPassphrase($0, $1, $2, connections: 1)
            },
        ]
    }

    private static var copying: [Work] {
        [
            Work(name: "rotation: re-encrypt 64 MB in memory, one core / libcrypto alone", goal: 1.25) {
                work, comparison, _ in
                try RotationWork.reencrypt(work, comparison, workers: 1)
            },
            Work(name: "rotation: re-encrypt 64 MB in memory, two cores / libcrypto alone", goal: 1.25) {
                work, comparison, _ in
                try RotationWork.reencrypt(work, comparison, workers: 2)
            },
            Work(name: "rotation of 64 MB: the copy alone / PRAGMA rekey", goal: 0.33) {
                try RotationWork.rotate($0, $1, $2, beside: .rekey, copyOnly: true)
            },
            Work(name: "rotation of 64 MB: all, verified / PRAGMA rekey", goal: nil) {
                try RotationWork.rotate($0, $1, $2, beside: .rekey)
            },
            Work(name: "rotation of 64 MB: all, verified / sqlcipher_export", goal: nil) {
                try RotationWork.rotate($0, $1, $2, beside: .export)
            },
            Work(name: "a verified backup of 60 MB / SQLite's backup API", goal: nil, body: BackupWork.wholeStore),
        ]
    }
}
