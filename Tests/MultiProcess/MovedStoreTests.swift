import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// A store whose files are renamed or replaced while a process has it open.
@Suite struct MovedStoreTests {
    let folder = TemporaryFolder()
    private var directory: String { folder.path("store") }
    private var path: String { directory + "/app.db" }

    private func actor(_ command: String, key: String = "raw") throws -> ActorProcess {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let actor = try ActorProcess()
        #expect(actor.ask("\(command) \(path) \(key)")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 1") == "ok")
        return actor
    }

    private func rename(_ from: String, _ to: String) throws {
        try FileManager.default.moveItem(atPath: from, toPath: to)
    }

    @Test(
        "a write throws storeMoved when the directory was renamed, and goes on when it is back",
        arguments: ["open", "open-pool"])
    func directoryRenamed(command: String) throws {
        let actor = try actor(command, key: command == "open" ? "raw" : "secret")
        try rename(directory, folder.path("elsewhere"))
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        try rename(folder.path("elsewhere"), directory)
        #expect(actor.ask("mark 1") == "ok")
        #expect(actor.ask("total") == "ok 3")
    }

    // SQLite continues with the old file, and its WAL then belongs to the new one: every later opening once failed with
    // CORRUPT.
    @Test(
        "a write throws storeMoved when another file took the name, and the other file stays sound",
        arguments: ["open", "open-pool"])
    func fileReplaced(command: String) throws {
        let key = command == "open" ? "raw" : "secret"
        let actor = try actor(command, key: key)
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        try FileManager.default.copyItem(atPath: path, toPath: path + ".new")
        #expect(Foundation.rename(path + ".new", path) == 0)
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        actor.kill()
        let other = try ActorProcess()
        #expect(other.ask("open \(path) \(key)")?.hasPrefix("ok") == true)
        #expect(other.ask("check") == "ok ok")
        #expect(other.ask("total") == "ok 2")
    }

    @Test("a hard link to the same file is no other file")
    func hardLink() throws {
        let actor = try actor("open")
        try FileManager.default.linkItem(atPath: path, toPath: folder.path("link.db"))
        #expect(actor.ask("mark 1") == "ok")
        try FileManager.default.removeItem(atPath: path)
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        try FileManager.default.linkItem(atPath: folder.path("link.db"), toPath: path)
        #expect(actor.ask("mark 1") == "ok")
        // Under its second name it is a store without its sidecar, which cannot be opened by accident.
        let other = try ActorProcess()
        #expect(other.ask("open \(folder.path("link.db")) raw")?.hasPrefix("error saltMissing") == true)
    }

    @Test("a store that was replaced during a suspension throws storeMoved behind it, before any access")
    func replacedWhileSuspended() throws {
        let actor = try actor("open")
        #expect(actor.ask("suspend")?.hasPrefix("ok released") == true)
        try rename(directory, folder.path("elsewhere"))
        #expect(actor.ask("total")?.hasPrefix("error storeMoved") == true)
        #expect(actor.ask("resume") == "ok")
        #expect(actor.ask("total")?.hasPrefix("error storeMoved") == true)
        #expect(actor.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        try rename(folder.path("elsewhere"), directory)
        #expect(actor.ask("resume") == "ok")
        #expect(actor.ask("mark 1") == "ok")
    }
}
