import CipherStore
import Foundation
import TestKit
import Testing

/// Who may use the files of a database that is created.
@Suite("File modes of new databases")
struct FileModeTests {
    private let folder = TemporaryFolder()

    private func modes(_ name: String) throws -> [String: Int] {
        var modes: [String: Int] = [:]
        for found in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) where found.hasPrefix(name) {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path(found))
            modes[found] = attributes[.posixPermissions] as? Int
        }
        return modes
    }

    // Under the usual umask everything came out 0644.
    @Test("by default a new database and what is beside it is its owner's alone", arguments: Opening.allCases)
    func ownerAlone(way: Opening) throws {
        try way.open(folder.path("app.db"), .raw(1)) { writer in
            try writer.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            let found = try modes("app.db")
            #expect(found.count >= 4 && found.values.allSatisfy { $0 == 0o600 }, "\(found)")
        }
    }

    @Test(
        "fileMode says it, whatever the umask", arguments: Opening.allCases, [0o600, 0o640, 0o644, 0o660, 0o664])
    func asked(way: Opening, mode: Int) throws {
        var config = Configuration()
        config.fileMode = mode
        try way.open(folder.path("app.db"), .raw(1), config) { writer in
            try writer.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            let found = try modes("app.db")
            #expect(found.count >= 4 && found.values.allSatisfy { $0 == mode }, "\(found)")
        }
    }

    @Test("the mode of a database that is there goes before it, be it still empty")
    func existing() throws {
        for (name, bytes) in [("empty.db", true), ("app.db", false)] {
            if bytes {
                try Data().write(to: URL(fileURLWithPath: folder.path(name)))
            } else {
                try Opening.pool.open(folder.path(name), .raw(1)) { _ in }
            }
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: folder.path(name))
            try FileManager.default.removeItem(atPath: folder.path("app.db-sidecar.bak"), ifExists: true)
            var config = Configuration()
            config.fileMode = 0o660
            try Opening.sharedStore.open(folder.path(name), .raw(1), config) { _ in }
            let found = try modes(name)
            #expect(found[name] == 0o640 && found[name + "-sidecar.bak"] == 0o640 && found[name + "-lock"] == 0o640)
        }
    }

    @Test(
        "a mode that no store can have is refused, and nothing is made",
        arguments: [0o666, 0o400, 0o700, 0o1600, 0, -1])
    func refused(mode: Int) throws {
        var config = Configuration()
        config.fileMode = mode
        for way in Opening.allCases {
            let error = #expect(throws: StoreError.self) {
                try way.open(folder.path("app.db"), .raw(1), config) { _ in }
            }
            #expect(error?.code == .settingsConflict && error?.why.contains("0660") == true)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
    }

    @Test("a plain database has it, too, and so has a copy")
    func plain() throws {
        var config = Configuration()
        config.allowsUnencrypted = true
        config.fileMode = 0o640
        let queue = try DatabaseQueue(path: folder.path("plain.db"), configuration: config)
        try queue.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try queue.vacuum(into: folder.path("copy.db"))
        try queue.close()
        #expect(try modes("plain.db") == ["plain.db": 0o640] && modes("copy.db") == ["copy.db": 0o640])
    }
}

extension FileManager {
    fileprivate func removeItem(atPath path: String, ifExists: Bool) throws {
        if !ifExists || fileExists(atPath: path) { try removeItem(atPath: path) }
    }
}
