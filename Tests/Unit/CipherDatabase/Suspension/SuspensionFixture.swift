import CipherDatabase
import Foundation
import TestKit
import Testing

/// Databases that observe suspension notifications, and the posts.
struct SuspensionFixture {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }

    enum Kind: CaseIterable {
        case pool
        case walQueue
        case rollbackQueue
    }

    static func suspend() { NotificationCenter.default.post(name: Database.suspendNotification, object: nil) }
    static func resume() { NotificationCenter.default.post(name: Database.resumeNotification, object: nil) }

    /// Runs a test; the process is not suspended behind it, whatever happened.
    static func whileSuspended<T>(_ body: () throws -> T) rethrows -> T {
        suspend()
        defer { resume() }
        return try body()
    }

    /// A database on the file of the fixture, with a table `t` of one column `a`.
    func open(_ kind: Kind, _ change: (inout Configuration) -> Void = { _ in }) throws -> any DatabaseWriter {
        let writer = try plain(kind) { config in
            config.observesSuspensionNotifications = true
            change(&config)
        }
        try writer.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS t(a)") }
        return writer
    }

    /// A second database on the same file, as another process would have it, that observes nothing.
    func plain(_ kind: Kind, _ change: (inout Configuration) -> Void = { _ in }) throws -> any DatabaseWriter {
        let config = Databases.configuration { config in
            if kind == .walQueue { config.journalMode = .wal }
            change(&config)
        }
        switch kind {
        case .pool: return try DatabasePool(path: path, configuration: config)
        case .walQueue, .rollbackQueue: return try DatabaseQueue(path: path, configuration: config)
        }
    }

    /// Shows that nobody holds the write lock: a connection that waits for nothing writes.
    func expectWritable(_ kind: Kind, at location: SourceLocation = #_sourceLocation) throws {
        let other = try plain(kind)
        #expect(throws: Never.self, sourceLocation: location) { try other.write { try $0.insert("other") } }
        try other.close()
    }
}

/// The error of a refused or ended access.
func expectSuspended(
    _ text: String = "", at location: SourceLocation = #_sourceLocation, _ body: () throws -> some Any
) {
    let error = databaseError(body)
    #expect(error?.resultCode == .SQLITE_ABORT, Comment(rawValue: text), sourceLocation: location)
    #expect(error?.message == "Database is suspended", Comment(rawValue: text), sourceLocation: location)
}
