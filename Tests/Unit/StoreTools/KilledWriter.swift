import CipherStore
import Foundation
import TestKit
import Testing

@testable import StoreTools

/// A store as a killed writer leaves it: six commits of two rows are in the WAL only.
struct KilledWriter {
    let fixture = ToolFixture()
    static let commits = 6
    static let strideBytes = 24 + 4096
    let path: String

    init() throws {
        let store = try fixture.openStore()
        try store.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)") }
        try store.checkpoint(.truncate)
        for step in 1...Self.commits {
            try store.write { db in
                try db.execute(
                    sql: "INSERT INTO t (text) VALUES (hex(randomblob(900)) || ?), ('\(step)')", arguments: [step])
            }
        }
        path = fixture.path("killed.db")
        for ending in ["", "-sidecar", "-sidecar.bak", "-wal", "-keylog"] {
            try FileManager.default.copyItem(atPath: fixture.store + ending, toPath: path + ending)
        }
        try store.close()
    }

    var source: KeySource { fixture.source }
    var copy: String { path + "-wal-damaged" }

    func bytes(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }
    func log() throws -> [UInt8] { try bytes(path + "-wal") }
    func write(_ bytes: [UInt8], to path: String) throws { try Data(bytes).write(to: URL(fileURLWithPath: path)) }
    func frames() throws -> Int { (try log().count - 32) / Self.strideBytes }
    static func offset(_ frame: Int) -> Int { 32 + (frame - 1) * strideBytes }

    /// The frames of the WAL that end a transaction.
    func ends() throws -> [Int] {
        let log = try log()
        return try (1...frames()).filter { log.bigEndian(at: Self.offset($0) + 4) > 0 }
    }

    /// Changes a byte of the WAL.
    func flip(_ offset: Int) throws {
        var log = try log()
        log[offset] ^= 1
        try write(log, to: path + "-wal")
    }

    /// A frame of page 1 that a commit is behind; the pages of each commit are in order.
    func frameOfPageOne() throws -> Int {
        let log = try log()
        return try #require(try (1...frames() - 1).last { log.bigEndian(at: Self.offset($0)) == 1 })
    }

    func open() throws -> SharedStore { try SharedStore.open(at: path, unlockedBy: source) }
    func copies() -> [String] { fixture.names().filter { $0.contains("-wal-damaged") } }

    /// Opens the store for writing, adds a row, and closes it.
    func use() throws -> [String] {
        let store = try open()
        defer { try? store.close() }
        let notices = store.notices
        try store.write { try $0.execute(sql: "INSERT INTO t (text) VALUES ('after')") }
        return notices
    }
}
