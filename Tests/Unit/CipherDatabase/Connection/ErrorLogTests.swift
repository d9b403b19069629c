import CipherDatabase
import Testing

/// SQLite's error log, which is one for the process: the tests wait for what they caused themselves.
@Suite(.serialized) struct ErrorLogTests {
    private func log(_ body: () throws -> Void) rethrows -> [(code: ResultCode, message: String)] {
        let found = Shared<[(code: ResultCode, message: String)]>([])
        Database.logError = { code, message in found.change { $0.append((code, message)) } }
        defer { Database.logError = nil }
        try body()
        return found.value
    }

    @Test("an error that SQLite logs is handed over, with its code")
    func logging() throws {
        let queue = DatabaseQueue()
        let found = log { queue.inDatabase { db in _ = try? db.execute(sql: "Abracadabra") } }
        let entry = found.first { $0.message.contains("Abracadabra") }
        #expect(entry?.code == .SQLITE_ERROR)
        #expect(entry?.message.contains("syntax error") == true)
        queue.inDatabase { db in _ = try? db.execute(sql: "Abracadabra") }
        #expect(Database.logError == nil)
    }

    // Each use went through two wrappers more than the one before, until the stack was full.
    @Test("a log function that was used often is called as directly as the first time")
    func manyUses() {
        let places = Shared<[Int]>([])
        Database.logError = { _, _ in
            var local = 0
            let place = withUnsafeMutablePointer(to: &local) { Int(bitPattern: $0) }
            places.change { $0.append(place) }
        }
        defer { Database.logError = nil }
        for _ in 0..<1000 { Database.logError?(.SQLITE_OK, "") }
        let distance = abs((places.value.last ?? 0) - (places.value.first ?? 0))
        #expect(places.value.count == 1000 && distance < 1000, "\(distance) bytes of the stack")
    }

    @Test("a message that could show a key is hidden")
    func keys() throws {
        let queue = DatabaseQueue()
        let found = log { queue.inDatabase { db in _ = try? db.execute(sql: "PRAGMA key = 'word of secret' again") } }
        #expect(found.contains { $0.message.contains("hidden") })
        #expect(!found.contains { $0.message.contains("word of secret") })
    }

    @Test("a connection that cannot be closed logs the statements that keep it open")
    func unfinalized() throws {
        let queue = DatabaseQueue()
        let statement = try queue.inDatabase { try $0.makeStatement(sql: "SELECT 'kept alive'") }
        let found = log { #expect(databaseError { try queue.close() }?.resultCode == .SQLITE_BUSY) }
        #expect(found.contains { $0.message == "unfinalized statement: SELECT 'kept alive'" })
        #expect(statement.sql == "SELECT 'kept alive'")
    }
}
