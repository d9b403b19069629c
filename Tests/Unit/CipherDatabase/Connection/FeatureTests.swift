import Foundation
import TestKit
import Testing

@testable import CipherDatabase

/// Features keep their state in slots of a connection, and are called at the moments for which they have asked.
@Suite("Features of a connection")
struct FeatureTests {
    /// Notes what it is called for.
    private final class Probe: ConnectionFeature {
        static let key = FeatureKey<Probe>(.records)

        var calls: [String] = []
        var refusal: DatabaseError?

        func willRun(_ statement: Statement, on db: Database) throws {
            if let refusal { throw refusal }
            calls.append("will run \(statement.sql)")
        }
        func willChangeSchema(_ statement: Statement, on db: Database) { calls.append("will change the schema") }
        func willVacuum(on db: Database) { calls.append("will vacuum") }
        func didChangeSchema(_ effects: StatementEffects, isForeign: Bool, on db: Database) {
            calls.append(isForeign ? "foreign change" : "did change the schema")
        }
        func didRun(on db: Database) { calls.append("did run") }
        func didFail(_ statement: Statement, on db: Database) { calls.append("did fail") }
        func transactionDidEnd(isCommit: Bool, on db: Database) { calls.append(isCommit ? "commit" : "rollback") }
        func willClose(_ db: Database) { calls.append("close") }

        func take() -> [String] {
            defer { calls = [] }
            return calls
        }
    }

    private static let all: FeatureMoments = [
        .willRun, .willChangeSchema, .willVacuum, .didChangeSchema, .didRun, .didFail, .close,
    ]

    /// Adds a probe to a database in memory with a table `t`.
    private func withProbe(at moments: FeatureMoments, _ body: (Probe, Database) throws -> Void) throws {
        let queue = try Databases.queueWithTable()
        try queue.writeWithoutTransaction { db in
            let probe = Probe()
            db.features.add(probe, for: Probe.key, at: moments)
            db.want(moments, for: Probe.key)
            try body(probe, db)
        }
    }

    @Test("a connection has at most 24 stored properties of its own")
    func storedProperties() throws {
        try DatabaseQueue().read { db in #expect(Mirror(reflecting: db).children.count <= 24) }
    }

    @Test("a feature that has asked for every moment is called at each")
    func everyMoment() throws {
        try withProbe(at: Self.all) { probe, db in
            try db.execute(sql: "INSERT INTO t VALUES (1)")
            #expect(probe.take() == ["will run INSERT INTO t VALUES (1)", "did run"])
            try db.execute(sql: "CREATE TABLE u(a)")
            // Full text reads the schema after a change.
            let creation = probe.take().filter { !$0.hasPrefix("will run SELECT") && $0 != "did run" }
            #expect(creation == ["will run CREATE TABLE u(a)", "will change the schema", "did change the schema"])
            try db.execute(sql: "VACUUM")
            // Statements of other features run before it.
            let vacuum = probe.take().filter { !$0.hasPrefix("will run") && $0 != "did run" }
            #expect(vacuum == ["will vacuum", "did change the schema"])
            #expect(throws: DatabaseError.self) {
                try db.execute(sql: "INSERT INTO t SELECT abs(-9223372036854775808)")
            }
            #expect(probe.take().last == "did fail")
        }
    }

    @Test("a feature is called at no moment for which it has not asked")
    func noOtherMoment() throws {
        try withProbe(at: .willChangeSchema) { probe, db in
            try db.execute(sql: "INSERT INTO t VALUES (1); SELECT * FROM t; VACUUM")
            #expect(probe.take() == [])
            try db.execute(sql: "CREATE TABLE u(a)")
            #expect(probe.take() == ["will change the schema"])
            db.features.want(.willChangeSchema, false, for: Probe.key)
            try db.execute(sql: "CREATE TABLE v(a)")
            #expect(probe.take() == [])
            #expect(db.features[Probe.key] === probe)
        }
    }

    @Test("a feature that asks for commits and rollbacks is told of both")
    func transactions() throws {
        try withProbe(at: [.didCommit, .didRollBack]) { probe, db in
            try db.inTransaction {
                try db.execute(sql: "INSERT INTO t VALUES (1)")
                return .commit
            }
            #expect(probe.take() == ["commit"])
            try db.inTransaction {
                try db.execute(sql: "INSERT INTO t VALUES (2)")
                return .rollback
            }
            #expect(probe.take() == ["rollback"])
        }
    }

    @Test("a statement that a feature refuses does not run")
    func refusal() throws {
        try withProbe(at: .willRun) { probe, db in
            probe.refusal = DatabaseError(resultCode: .SQLITE_AUTH)
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t VALUES (1)") }
            probe.refusal = nil
            try #expect(db.rowCount() == 0)
        }
    }

    @Test("statements that the library runs for its own purposes are shown to no watcher")
    func ownStatements() throws {
        try withProbe(at: .watch) { probe, db in
            db.features.isWatching = true
            try db.withoutWatching { _ = try db.rowCount() }
            #expect(probe.take() == [])
            try #expect(db.rowCount() == 0)
            #expect(probe.take().count == 1)
        }
    }

    @Test("a feature is told that its connection closes, and its slot has one type")
    func closing() throws {
        let queue = try Databases.queueWithTable()
        let probe = Probe()
        queue.inDatabase { $0.features.add(probe, for: Probe.key, at: .close) }
        try queue.close()
        #expect(probe.calls == ["close"])
    }
}
