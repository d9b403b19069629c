import CipherDatabase
import Foundation
import Testing

/// Values bound to statements show in errors and traces only where the configuration allows it.
@Suite struct PrivacyTests {
    private let secret = "secret word"

    private func queue(isPublic: Bool) throws -> DatabaseQueue {
        let queue = try Databases.queueWithTable { $0.publicStatementArguments = isPublic }
        try queue.write { try $0.execute(sql: "CREATE UNIQUE INDEX i ON t(a)") }
        return queue
    }

    private func error(isPublic: Bool) throws -> DatabaseError {
        let found = databaseError {
            try queue(isPublic: isPublic).write { db in
                try db.insert(secret)
                try db.insert(secret)
            }
        }
        return try #require(found)
    }

    @Test("an error shows the SQL without the values")
    func privateError() throws {
        let error = try error(isPublic: false)
        let text = "SQLite error 19: UNIQUE constraint failed: t.a - while executing `INSERT INTO t VALUES (?)`"
        #expect(error.description == text)
        #expect("\(error)" == text)
        #expect(error.sql == "INSERT INTO t VALUES (?)")
        #expect(error.expandedDescription == text + " with arguments [\"secret word\"]")
        #expect(!error.localizedDescription.contains(secret))
    }

    @Test("an error shows the values where they are public")
    func publicError() throws {
        let error = try error(isPublic: true)
        #expect(error.description.hasSuffix("with arguments [\"secret word\"]"))
        #expect(error.expandedDescription == error.description)
    }

    private func traces(isPublic: Bool, _ text: @escaping (Database.TraceEvent) -> String) throws -> [String] {
        var events: [String] = []
        try queue(isPublic: isPublic).inDatabase { db in
            db.trace { events.append(text($0)) }
            try db.insert(secret)
            db.trace(nil)
            try db.insert("later")
        }
        return events
    }

    @Test("a trace shows the SQL without the values, unless they are public or asked for")
    func traces() throws {
        #expect(try traces(isPublic: false) { $0.description } == ["INSERT INTO t VALUES (?)"])
        #expect(try traces(isPublic: true) { $0.description } == ["INSERT INTO t VALUES ('secret word')"])
        #expect(try traces(isPublic: false) { $0.expandedDescription } == ["INSERT INTO t VALUES ('secret word')"])
    }

    // A trace named a statement with the semicolon and the blanks around it, so the same statement had several names.
    @Test("a trace shows statements without the blanks and semicolons around them")
    func trimmedTraces() throws {
        var events: [String] = []
        try queue(isPublic: false).inDatabase { db in
            db.trace(options: [.statement, .profile]) { event in
                switch event {
                case .statement(let statement), .profile(let statement, _):
                    events += [statement.sql, statement.expandedSQL]
                }
            }
            try db.execute(sql: "\n INSERT INTO t VALUES (?) ; ;", arguments: [1])
        }
        let (sql, expanded) = ("INSERT INTO t VALUES (?)", "INSERT INTO t VALUES (1)")
        #expect(events == [sql, expanded, sql, expanded])
    }

    @Test("a profile tells each statement when it has ended, with its seconds")
    func profile() throws {
        var events: [String] = []
        try queue(isPublic: false).inDatabase { db in
            db.trace(options: [.statement, .profile]) { event in
                switch event {
                case .statement(let statement): events.append("start \(statement.sql)")
                case .profile(let statement, let seconds):
                    #expect(seconds >= 0 && seconds < 10)
                    events.append("end \(statement.sql)")
                }
            }
            try db.insert(1)
        }
        #expect(events == ["start INSERT INTO t VALUES (?)", "end INSERT INTO t VALUES (?)"])
    }

    @Test("a trace names the trigger and what it runs instead of telling the statement that fired it twice")
    func triggers() throws {
        var events: [String] = []
        try queue(isPublic: true).inDatabase { db in
            try db.execute(sql: "CREATE TRIGGER echo AFTER INSERT ON t BEGIN SELECT 1; END")
            db.trace { events.append($0.description) }
            try db.insert(secret)
        }
        #expect(events == ["INSERT INTO t VALUES ('secret word')", "-- TRIGGER echo", "-- SELECT 1"])
    }

    @Test("a statement that may hold a key is hidden from errors and traces, public or not")
    func keys() throws {
        var events: [String] = []
        let queue = try queue(isPublic: true)
        let error = databaseError {
            try queue.inDatabase { db in
                db.trace { events.append($0.expandedDescription) }
                try db.execute(sql: "PRAGMA key = 'secret word'")
            }
        }
        #expect(error?.resultCode == .SQLITE_AUTH)
        #expect(error?.expandedDescription.contains(secret) == false)
        #expect(!events.joined().contains(secret))
    }
}
