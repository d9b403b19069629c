import CipherStore
import Foundation
import KeyCustody
import TestKit
import Testing

/// The record of a store's creation in the key log.
@Suite struct CreationEventTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func open(_ scheme: KeyScheme = .slots) throws -> SharedStore {
        var config = Configuration()
        config.keyScheme = scheme
        return try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"), configuration: config)
    }

    private func entries() throws -> [KeyLogEntry] { try KeyLog(databasePath: path).verify().entries }

    @Test("the opening that creates a store says so in the key log, once", arguments: KeyScheme.allCases)
    func once(scheme: KeyScheme) throws {
        for _ in 0..<3 {
            let store = try open(scheme)
            #expect(store.notices.isEmpty, "\(store.notices)")
            try store.close()
        }
        let entries = try entries()
        #expect(entries.map(\.event) == ["store-created"])
        let details = try #require(entries.first?.details)
        #expect(details.first == KeyLogField(name: "scheme", value: .word(scheme.rawValue)))
        #expect(details.map(\.name) == ["scheme", "store"])
    }

    @Test("a key log that cannot be written keeps no store from being created, and is told")
    func unwritable() throws {
        let log = KeyLog(databasePath: path).path
        try FileManager.default.createDirectory(atPath: log, withIntermediateDirectories: false)
        let store = try open()
        #expect(store.notices.count == 1 && store.notices.first?.contains("store-created") == true, "\(store.notices)")
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try store.close()
        try FileManager.default.removeItem(atPath: log)
        // Earlier events are not reported later.
        let again = try open()
        #expect(again.notices.isEmpty)
        try again.close()
        #expect(try entries().isEmpty)
    }
}
