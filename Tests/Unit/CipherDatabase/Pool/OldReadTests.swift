import CipherDatabase
import Foundation
import TestKit
import Testing

@Suite("Reads of a pool that are too old")
struct OldReadTests {
    let folder = TemporaryFolder()

    private func pool(_ decision: OldRead.Decision, _ whenReported: @escaping @Sendable (OldRead) -> Void = { _ in })
        throws -> DatabasePool
    {
        try Databases.poolWithTable(folder) {
            $0.maximumReadAge = .milliseconds(50)
            $0.onOldRead = { read in
                whenReported(read)
                return decision
            }
        }
    }

    @Test("a statement that runs on is interrupted, and the connection is used again")
    func statement() throws {
        let reads = Shared<[OldRead]>([])
        let pool = try pool(.end) { read in reads.change { $0.append(read) } }
        for _ in 0..<3 {
            let error = #expect(throws: DatabaseError.self) {
                try pool.read { try Int.fetchOne($0, sql: endlessSQL + " WHERE i > ?", arguments: [-1]) }
            }
            #expect(error?.resultCode == .SQLITE_INTERRUPT)
            #expect(error?.message?.contains("maximumReadAge") == true)
            #expect(try pool.read { try $0.rowCount() } == 0)
        }
        let all = reads.value
        #expect(all.count == 3 && all.allSatisfy { $0.age >= .milliseconds(50) })
        #expect(all[0].sql == endlessSQL + " WHERE i > ?" && all[0].connection.contains("reader"))
        #expect(all[0].description.contains("SELECT COUNT(*) FROM n"))
    }

    @Test("the reads of tasks, too")
    func tasks() async throws {
        let pool = try pool(.end)
        for _ in 0..<3 {
            let error = await #expect(throws: DatabaseError.self) {
                try await pool.read { try Int.fetchOne($0, sql: endlessSQL) }
            }
            #expect(error?.resultCode == .SQLITE_INTERRUPT)
            #expect(try await pool.read { try $0.rowCount() } == 0)
        }
    }

    @Test("code of the program that runs on gets the error from its next statement, once")
    func program() throws {
        let isReported = Gate()
        let pool = try pool(.end) { _ in isReported.open() }
        let error = #expect(throws: DatabaseError.self) {
            try pool.read { db throws in
                _ = try db.rowCount()
                #expect(isReported.wait())
                // The decision is applied after the function has returned.
                while true { _ = try db.rowCount() }
            }
        }
        #expect(error?.resultCode == .SQLITE_INTERRUPT)
        #expect(try pool.read { try $0.rowCount() } == 0)
    }

    @Test("a read that may continue is reported once, and ends as it would; writes and short reads are not reported")
    func reportedOnly() throws {
        let (connections, isReported) = (Shared<[String]>([]), Gate())
        let pool = try pool(.continue) { read in
            connections.change { $0.append(read.connection) }
            isReported.open()
        }
        // Another read that grows old takes as long as a second report of the first one would.
        let growOld: @Sendable () throws -> Void = { try pool.read { _ in #expect(isReported.wait()) } }
        let rows = try pool.read { db throws in
            #expect(isReported.wait())
            let threads = Threads()
            threads.start(growOld)
            threads.join()
            return try db.rowCount()
        }
        #expect(rows == 0)
        try pool.write { _ in try growOld() }
        for _ in 0..<100 { _ = try pool.read { try $0.rowCount() } }
        let names = connections.value
        #expect(names.count == 3 && names[0] != names[1] && names.allSatisfy { $0.contains("reader") })
    }

    @Test("without a function of the program there is a notice")
    func notice() throws {
        let (isTold, text) = (Gate(), Shared(""))
        let pool = try Databases.poolWithTable(folder) {
            $0.maximumReadAge = .milliseconds(20)
            $0.onNotice = { notice in
                guard notice.hasPrefix("A read on") else { return }
                text.change { $0 = notice }
                isTold.open()
            }
        }
        try pool.read { db throws in
            _ = try Int.fetchOne(db, sql: "SELECT a FROM t WHERE a = ?", arguments: ["secret"])
            #expect(isTold.wait())
        }
        let shown = text.value
        #expect(shown.contains("SELECT a FROM t WHERE a = ?") && !shown.contains("secret"))
    }
}
