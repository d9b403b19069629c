import CipherStore
import Foundation
import StorePlatform

/// Copies the content of a store into a new plain SQLite database: copy, verify, publish.
struct PlainExport {
    let store: SharedStore
    let target: ImportTarget
    let progress: ProgressBar

    struct Result {
        let rowCount: Int
        let hash: ContentHash
    }

    /// - Throws: What reading and writing throw; ``CommandFailure`` when the copy is not the same. Nothing that was
    ///   begun is left behind then.
    func run() throws -> Result {
        let staging = try StagingDirectory(for: target.path, .exporting)
        defer { staging.remove() }
        let staged = target.databasePath(in: staging)
        // Made first, so that it is its owner's alone from the first byte.
        _ = try FileDescriptor(
            opening: staged, .writeOnly, creating: .always(permissions: FileAttributes.privatePermissions))
        let result = try store.read { try copy($0, into: staged) }
        try verify(staged, expecting: result.hash)
        try Interruption.shared.check()
        try publish(staged)
        return result
    }

    // MARK: Copying

    private func copy(_ source: Database, into path: String) throws -> Result {
        let queue = try DatabaseQueue(path: path, configuration: configuration(PlainLayout(source)))
        let rows: Int
        do {
            rows = try queue.inDatabase { db in
                try db.execute(sql: "PRAGMA writable_schema = ON; PRAGMA ignore_check_constraints = ON")
                var rows = 0
                try db.inTransaction(.immediate) {
                    rows = try copyRows(source, db)
                    return .commit
                }
                return rows
            }
            try queue.close()
        } catch {
            try? queue.close()
            throw error
        }
        return Result(rowCount: rows, hash: try ContentHash.of(source) { try tick("reading again") })
    }

    private func copyRows(_ source: Database, _ db: Database) throws -> Int {
        var count = 0
        return try DatabaseCopy(source: source, target: db) { table in
            count += 1
            if count.isMultiple(of: 1000) { try tick("\(count) rows, table \(table)") }
        }.run()
    }

    private func configuration(_ layout: PlainLayout) -> Configuration {
        var configuration = Configuration()
        configuration.label = "cipherctl.export"
        configuration.allowsUnencrypted = true
        configuration.foreignKeysEnabled = false
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA page_size = \(layout.pageBytes)")
            try db.execute(sql: "PRAGMA encoding = '\(layout.encoding)'")
            try db.execute(sql: "PRAGMA auto_vacuum = \(layout.autoVacuum)")
            // Nobody else sees the file, and a copy that fails is thrown away as a whole.
            try db.execute(sql: "PRAGMA journal_mode = OFF")
            try db.execute(sql: "PRAGMA synchronous = OFF")
            try db.execute(sql: "PRAGMA cache_size = -65536")
        }
        return configuration
    }

    // MARK: Verifying and publishing

    private func verify(_ path: String, expecting hash: ContentHash) throws {
        let copy = try PlainSource.open(path)
        defer { try? copy.close() }
        let copied = try copy.read { db in try ContentHash.of(db) { try tick("verifying") } }
        guard copied == hash else {
            throw CommandFailure(
                .failed, "contentDiffers", what: "The plain copy is not the same as the store.",
                why: "The content hash of the store is \(hash.hex), that of the copy \(copied.hex).",
                hint: "Nothing was made. This is a defect of this program: please report it.")
        }
    }

    private func publish(_ staged: String) throws {
        try FileDescriptor(opening: staged, .readOnly).synchronize()
        try target.requireFree()
        try StagingDirectory.link(staged, to: target.path)
        do {
            try Files.synchronize(directory: Files.directory(of: target.path))
        } catch {
            try? Files.remove(target.path)
            throw error
        }
    }

    private func tick(_ what: String) throws {
        if Interruption.shared.isSet { try Interruption.shared.check() }
        progress.show(what)
    }
}

/// What a new file must be told before its first page exists.
private struct PlainLayout: Sendable {
    let pageBytes: Int
    let encoding: String
    let autoVacuum: Int

    init(_ db: Database) throws {
        pageBytes = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 4096
        encoding = try String.fetchOne(db, sql: "PRAGMA main.encoding") ?? "UTF-8"
        autoVacuum = try Int.fetchOne(db, sql: "PRAGMA main.auto_vacuum") ?? 0
    }
}
