import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import Synchronization
import TestKit
import Testing

@testable import KeyRotation

/// `integrity_check` before a rotation: its cancellation, and its findings.
@Suite(.serialized) struct IntegrityCheckTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private static let rows = 200

    /// A store with an index on the result of a function, which `integrity_check` calls for each row as well.
    private func open(_ look: @escaping @Sendable () -> Void = {}) throws -> SharedStore {
        var config = Configuration()
        config.prepareDatabase { db in
            let function = DatabaseFunction("looked_at", argumentCount: 1, pure: true) { values in
                look()
                return values[0]
            }
            db.add(function: function)
        }
        return try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"), configuration: config)
    }

    private func fill(_ store: SharedStore) throws {
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, number, text TEXT)")
            try db.execute(sql: "CREATE INDEX i ON t (looked_at(number))")
            for number in 0..<Self.rows {
                try db.execute(sql: "INSERT INTO t VALUES (NULL, ?, hex(randomblob(2000)))", arguments: [number])
            }
        }
        try store.checkpoint(.passive)
    }

    private func sidecar() throws -> Sidecar? { SidecarFiles(databasePath: path).read().main.parsed?.claimed }

    /// The counters of a check in progress.
    private struct Scene {
        var isArmed = false
        var rows = 0
        var questions = 0
    }

    // Story: the rotation went on, and said that every page is authentic.
    @Test("a page that was filled with zeros is damage, also in an auto-vacuum store")
    func zeros() throws {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.writeWithoutTransaction { try $0.execute(sql: "PRAGMA auto_vacuum = FULL; VACUUM") }
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
            for _ in 0..<200 { try db.execute(sql: "INSERT INTO t VALUES (NULL, hex(randomblob(1000)))") }
        }
        #expect(try store.read { try Int.fetchOne($0, sql: "PRAGMA auto_vacuum") } == 1)
        try store.close()
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try file.seek(toOffset: 60 * 4096)
        try file.write(contentsOf: Data(count: 4096))
        try file.close()
        let damaged = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        let plan = try KeyRotation(damaged).preflight()
        #expect(!plan.canBegin && plan.damagedPage == 61, "\(plan.obstacles)")
        let error = #expect(throws: StoreError.self) { try KeyRotation(damaged).run() }
        #expect(error?.code == .pageDamaged(61), "\(error as Any)")
        try damaged.close()
    }

    @Test("a cancellation ends integrity_check in its middle, and the rotation with it", arguments: [true, false])
    func cancels(rotates: Bool) throws {
        let scene = Mutex(Scene())
        let store = try open {
            let isFirst = scene.withLock { scene in
                if scene.isArmed { scene.rows += 1 }
                return scene.rows == 1 && scene.isArmed
            }
            // By the second call of `isCancelled`, the first one has caused an interruption.
            if isFirst { _ = waitUntil(within: .seconds(5)) { scene.withLock { $0.questions > 1 } } }
        }
        try fill(store)
        scene.withLock { $0.isArmed = true }
        let isCancelled: @Sendable () -> Bool = {
            scene.withLock { scene in
                if scene.rows > 0 { scene.questions += 1 }
                return scene.rows > 0
            }
        }
        #expect(throws: CancellationError.self) {
            if rotates {
                try KeyRotation(store).run(isCancelled: isCancelled)
            } else {
                _ = try KeyRotation(store).preflight(isCancelled: isCancelled)
            }
        }
        let looked = scene.withLock { $0.rows }
        #expect(looked > 0 && looked < Self.rows, "\(looked) rows")
        #expect(try sidecar()?.state == .ready)
        #expect(store.epoch == 1)
        try store.close()
    }

    // With SQLCipher, SQLite names the page that is read next.
    @Test("a page that fails its authentication ends the rotation by its own number")
    func damagedPage() throws {
        let store = try open()
        try fill(store)
        try store.close()
        let file = try FileDescriptor(opening: path, .readWrite)
        let byte = try #require(try file.read(at: 149 * 4096 + 77, byteCount: 1).first)
        try file.write([byte ^ 1], at: 149 * 4096 + 77)
        let damaged = try open()
        #expect(storeError { try KeyRotation(damaged).run() } == .pageDamaged(150))
        #expect(damaged.epoch == 1)
        try damaged.close()
    }

    // In some places such a page makes SQLCipher end the check with an error of its own, and rotations once ended with
    // that error.
    @Test(
        "a damaged page is told by its number wherever it lies, by rotations and when one is looked at",
        arguments: [2, 3, 4, 5, 9, 60])
    func damagedAnywhere(page: UInt32) throws {
        let store = try open()
        try fill(store)
        try store.close()
        let file = try FileDescriptor(opening: path, .readWrite)
        let offset = Int(page - 1) * 4096 + 77
        let byte = try #require(try file.read(at: offset, byteCount: 1).first)
        try file.write([byte ^ 1], at: offset)
        let damaged = try open()
        #expect(storeError { try KeyRotation(damaged).run() } == .pageDamaged(page))
        let plan = try KeyRotation(damaged).preflight()
        #expect(!plan.canBegin && plan.obstacles.contains { $0.what.lowercased().contains("page \(page)") }, "\(plan)")
        try damaged.close()
    }

    // Both ended the rotation, though every page was authentic and the copy needs no content.
    @Test(
        "what integrity_check finds where every page is authentic is a warning, and the store is rotated",
        arguments: ["row", "page", "index"])
    func authenticFindings(kind: String) throws {
        var store = try open()
        try fill(store)
        try store.writeWithoutTransaction { db in
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            switch kind {
            case "row":
                try db.execute(sql: "CREATE TABLE u (a); INSERT INTO u VALUES (NULL); PRAGMA writable_schema = ON")
                try db.execute(sql: "UPDATE sqlite_schema SET sql = 'CREATE TABLE u (a NOT NULL)' WHERE name = 'u'")
            case "page":
                try db.execute(sql: "CREATE TABLE gone (a); PRAGMA writable_schema = ON")
                try db.execute(sql: "DELETE FROM sqlite_schema WHERE name = 'gone'")
            default:
                // The program's own collation and function, in the places of SQLite's.
                db.add(collation: DatabaseCollation("NOCASE") { $1.compare($0) })
                let function = DatabaseFunction("lower", argumentCount: 1, pure: true) { values in
                    String((String.fromDatabaseValue(values[0]) ?? "").reversed())
                }
                db.add(function: function)
                try db.execute(
                    sql: """
                        CREATE TABLE u (a TEXT COLLATE NOCASE UNIQUE); CREATE INDEX l ON u (lower(a));
                        INSERT INTO u VALUES ('ab'), ('ca'), ('dc')
                        """)
            }
        }
        try store.close()
        store = try open()
        let plan = try KeyRotation(store).preflight()
        let first = try #require(plan.damage?.first)
        #expect(plan.canBegin && plan.warnings.contains { $0.what.contains(first) }, "\(plan)")
        let report = try KeyRotation(store).run()
        #expect(report.toEpoch == 2 && report.notices.contains { $0.contains(first) && $0.contains("authentic") })
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == Self.rows)
        try store.close()
    }

    @Test("the findings are lines without SQLite's heading")
    func lines() {
        #expect(
            IntegrityCheck.lines(["*** in database main ***\nTree 2 page 7: a\nPage 9: b", "row 3"])
                == ["Tree 2 page 7: a", "Page 9: b", "row 3"])
        #expect(IntegrityCheck.lines(["ok"]).isEmpty)
    }

    @Test(
        "a function that only the program has is no damage: the rotation runs, and its plan says what was not checked")
    func missingFunction() throws {
        // Story: such a store could not be rotated by another program.
        let program = try open()
        try fill(program)
        try program.close()
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        let plan = try KeyRotation(store).preflight()
        #expect(plan.canBegin && plan.notChecked == ["function looked_at"], "\(plan.obstacles)")
        #expect(plan.warnings.contains { $0.what.contains("looked_at") })
        // Story: the rotation itself did not say that the check was not run.
        let report = try KeyRotation(store).run()
        #expect(report.toEpoch == 2)
        let notices = report.notices.filter { $0.contains("integrity_check was not run") }
        #expect(notices.count == 1 && notices.first?.contains("function looked_at") == true, "\(report.notices)")
        try store.close()
    }
}
