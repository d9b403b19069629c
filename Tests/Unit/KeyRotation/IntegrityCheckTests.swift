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

    @Test("a page that SQLite names ends the rotation by its number and in SQLite's words")
    func orphanedPage() throws {
        let store = try open()
        try fill(store)
        let page = try store.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE gone (a)")
            let page = try UInt32.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'gone'")
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(sql: "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'gone'")
            return page
        }
        do {
            try KeyRotation(store).run()
            Issue.record("it was rotated")
        } catch let error as StoreError {
            #expect(try error.code == .pageDamaged(#require(page)))
            #expect(error.why.hasPrefix("integrity_check: Page"), "\(error.why)")
        }
        #expect(try sidecar()?.state == .ready)
        try store.close()
    }

    @Test("damage of rows has no page: the rotation ends with what integrity_check says")
    func damagedRow() throws {
        let store = try open()
        try fill(store)
        try store.writeWithoutTransaction { db in
            db.mayChangeStoreTables = true
            defer { db.mayChangeStoreTables = false }
            try db.execute(sql: "CREATE TABLE u (a); INSERT INTO u VALUES (NULL); PRAGMA writable_schema = ON")
            try db.execute(sql: "UPDATE sqlite_schema SET sql = 'CREATE TABLE u (a NOT NULL)' WHERE name = 'u'")
        }
        do {
            try KeyRotation(store).run()
            Issue.record("it was rotated")
        } catch let error as DatabaseError {
            #expect(error.resultCode == .SQLITE_CORRUPT)
            #expect(error.message?.contains("integrity_check: NULL value in u.a") == true, "\(error)")
        }
        let plan = try KeyRotation(store).preflight()
        #expect(plan.damage == ["NULL value in u.a"])
        #expect(plan.obstacles.first?.what == "integrity_check found damage: NULL value in u.a.")
        #expect(try sidecar()?.state == .ready)
        try store.close()
    }

    @Test("of SQLite's findings those are pages that begin with one")
    func pages() {
        let findings: [(String, UInt32?)] = [
            ("Tree 2 page 7 cell 3: Rowid 4 out of order", 7),
            ("Tree 2 page 7: btreeInitPage() returns error code 11", 7),
            ("Tree 12 page 4000000000 right child: Child page depth differs", 4_000_000_000), ("Page 9: never used", 9),
            ("Tree 2 page 7 cell 0: 2nd reference to page 9", 7), ("Page 0: never used", nil),
            ("Freelist: size is 3 but should be 2", nil), ("row 3 missing from index page 7", nil),
            ("NULL value in Page 9.a: b", nil), ("Page 4 of 5: what", nil), ("Tree 2 page", nil), ("", nil),
        ]
        for (finding, page) in findings { #expect(IntegrityCheck.page(in: finding) == page, "\(finding)") }
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
        #expect(try KeyRotation(store).run().toEpoch == 2)
        try store.close()
    }
}
