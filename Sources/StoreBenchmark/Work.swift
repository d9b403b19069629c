import CipherStore

/// One piece of work that is measured, with the ratio that the project aims at.
struct Work {
    let name: String
    let goal: Double?
    private let body: (Work, Comparison, Fixture) throws -> Measurement

    func measure(_ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try body(self, comparison, fixture)
    }

    static var all: [Work] { reading + writing + opening + copying }

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
            Work(name: "an empty read / BEGIN and COMMIT", goal: nil) {
                try PointReadingWork.empty($0, $1, $2, by: $2.pool(at: $2.path))
            },
            Work(name: "an empty read of a SharedStore / BEGIN and COMMIT", goal: nil) {
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
