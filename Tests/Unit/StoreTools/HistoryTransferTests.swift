import CipherStore
import Foundation
import StoreTools
import TestKit
import Testing

/// The history of changes goes with its database: tokens, readers and recording.
@Suite("The history in copies") struct HistoryTransferTests {
    private let fixture = ToolFixture()

    /// The place of a reader, and the content that the copy must have after it.
    private struct Place {
        let token: HistoryToken
        let expected: [Int64]
    }

    /// Begins to record, changes rows, and registers a reader in the middle.
    private func record(_ writer: any DatabaseWriter) throws -> Place {
        try writer.write { db in
            try db.recordHistory(of: .tables(["note"]), keeping: ["note": ["text"]])
            try db.execute(sql: "DELETE FROM note WHERE id = 1")
            try db.registerHistoryReader("copy")
        }
        let token = try writer.read { try $0.historyToken() }
        try writer.write {
            try $0.execute(sql: "UPDATE note SET text = 'x' WHERE id = 2; DELETE FROM note WHERE id = 3")
        }
        return Place(token: token, expected: [2, 3])
    }

    private func expect(
        _ place: Place, in writer: any DatabaseWriter, at location: SourceLocation = #_sourceLocation
    ) throws {
        #expect(try rows(since: place.token, in: writer) == place.expected, sourceLocation: location)
        let reader = try writer.read { try $0.historyReaders() }
        #expect(reader.map(\.name) == ["copy"], sourceLocation: location)
        #expect(reader.first?.token == place.token && reader.first?.lag == 2, sourceLocation: location)
        let page = try writer.history(since: place.token)
        #expect(page.transactions.last?.changes.last?.formerValues.keys.first == "text", sourceLocation: location)
        #expect(page.transactions.first?.author?.label == page.transactions.last?.author?.label)
        // It goes on where it was.
        try writer.write { try $0.execute(sql: "DELETE FROM note WHERE id = 4") }
        let later = try writer.history(since: page.token).transactions.flatMap(\.changes)
        #expect(later.map(\.rowID) == [4] && later.map(\.kind) == [.deleted], sourceLocation: location)
        #expect(try writer.read { try $0.isHistoryInOrder() }, sourceLocation: location)
    }

    private func rows(since token: HistoryToken, in writer: any DatabaseWriter) throws -> [Int64] {
        try writer.history(since: token).transactions.flatMap(\.changes).compactMap(\.rowID)
    }

    private func plainQueue(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    @Test("an import of a plain database that has a history keeps it, and so does an export")
    func importAndExport() throws {
        try fixture.makePlain()
        let plain = try plainQueue(fixture.plain)
        // The copy creates indexes when the tables of the history are there and their triggers are not.
        try plain.write { try $0.execute(sql: "CREATE INDEX note_of_text ON note (text)") }
        let place = try record(plain)
        try plain.close()
        try StoreImport(of: fixture.plain, to: fixture.store, unlockedBy: fixture.source).run()
        let back = fixture.path("back.db")
        try StoreExport(of: fixture.store, toInsecurePlaintext: back, unlockedBy: fixture.source).run()
        for (writer, file) in [
            (try fixture.openStore() as any DatabaseWriter, "import"), (try plainQueue(back), "export"),
        ] {
            try expect(place, in: writer)
            #expect(try writer.read { try $0.recordedTables() } == ["note"], "\(file)")
            try writer.close()
        }
    }

    @Test("a database of SQLCipher that is adopted keeps it")
    func adopted() throws {
        try fixture.makeStandard()
        let pool = try fixture.openStandard()
        let place = try record(pool)
        try pool.close()
        try StoreAdoption(fixture.store, unlockedBy: fixture.source).run()
        let store = try fixture.openStore()
        try expect(place, in: store)
        try store.close()
    }

    @Test("a backup and its restoration keep it")
    func backup() throws {
        try fixture.makeStore()
        let store = try fixture.openStore()
        let place = try record(store)
        try store.backup(toFolder: fixture.path("backup"))
        try store.close()
        try SharedStore.restore(
            from: fixture.path("backup"), to: fixture.path("restored.db"), unlockedBy: fixture.source)
        let restored = try SharedStore.open(at: fixture.path("restored.db"), unlockedBy: fixture.source)
        try expect(place, in: restored)
        try restored.close()
    }

    @Test("VACUUM and VACUUM INTO keep it")
    func vacuum() throws {
        try fixture.makePlain()
        let plain = try plainQueue(fixture.plain)
        let place = try record(plain)
        try plain.vacuum(into: fixture.path("vacuumed.db"))
        let copy = try plainQueue(fixture.path("vacuumed.db"))
        try expect(place, in: copy)
        try plain.vacuum()
        try expect(place, in: plain)
        try copy.close()
        try plain.close()
    }

    @Test("a copy by SQLite's backup keeps it")
    func copy() throws {
        try fixture.makePlain()
        let plain = try plainQueue(fixture.plain)
        let place = try record(plain)
        let copy = DatabaseQueue()
        try plain.backup(to: copy)
        try expect(place, in: copy)
        try plain.close()
    }
}
