import CipherStore
import Foundation
import StorePlatform
import StoreTools
import Synchronization
import TestKit
import Testing

/// Another member of the group of a shared folder cannot read a staging directory, but may rename it, and put a link to a
/// private directory of its maker in its place while SQLite opens files by path.
@Suite("A staging directory whose name another one gets")
struct SwappedStagingTests {
    private let fixture = ToolFixture()
    private let swap: DirectorySwap

    init() { swap = DirectorySwap(folder: fixture.folder.path("."), victim: fixture.path("private")) }

    /// When the directory is exchanged.
    enum Moment: CaseIterable {
        /// The copy is not open yet.
        case before
        /// A connection has the copy open.
        case after
    }

    private func program(_ moment: Moment) -> Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { [swap] db in
            if moment == .after { swap.exchange() }
            // Statements of the source: the copy is made after them.
            if moment == .before { db.trace { _ in swap.exchange() } }
        }
        return configuration
    }

    // The WAL beside the private database of the same name was removed, and its commits were lost.
    @Test("an import, an export and a salvage change nothing there", arguments: Moment.allCases)
    func copies(_ moment: Moment) throws {
        try fixture.makePlain()
        try fixture.makeStore()
        let before = try swap.fill()
        for tool in ["import", "export", "salvage"] {
            let target = fixture.path("target.db")
            swap.arm(tool == "export" ? "target.db.exporting-" : "target.db.importing-")
            let error = #expect(throws: SystemError.self, "\(tool)") {
                switch tool {
                case "import":
                    var tool = StoreImport(of: fixture.plain, to: target, unlockedBy: fixture.source)
                    tool.configuration = program(moment)
                    try tool.run()
                case "export":
                    var tool = StoreExport(of: fixture.store, toInsecurePlaintext: target, unlockedBy: fixture.source)
                    tool.configuration = program(moment)
                    try tool.run()
                default:
                    var tool = StoreSalvage(of: fixture.store, to: target, unlockedBy: fixture.source)
                    tool.configuration = program(moment)
                    try tool.run { _ in if moment == .before { self.swap.exchange() } }
                }
            }
            // When the sidecar is written, a link in the place of the directory is no directory.
            let codes = [ESTALE, ENOTDIR]
            #expect(error.map { codes.contains($0.errorNumber) } == true, "\(tool): \(String(describing: error))")
            #expect(error?.path?.contains("target.db.") == true)
            #expect(swap.isDone, "\(tool)")
            #expect(try swap.changes(since: before) == [], "\(tool)")
            #expect(!Files.exists(target), "\(tool)")
            try swap.removeLink()
        }
    }

    /// The files of a new store that the steps before the check of the folder make.
    private static let leftEndings: Set<String> = ["", "-lock", "-sidecar", "-sidecar.bak"]

    // Story: the threat model said that one empty file may be left.
    @Test(
        "a directory that gets its name keeps its files, and gets at most four new ones, without a row",
        arguments: ["import", "export", "salvage"], Moment.allCases)
    func left(_ tool: String, _ moment: Moment) throws {
        try fixture.makePlain()
        try fixture.makeStore()
        let before = try swap.fill()
        let target = fixture.path("target.db")
        swap.arm(tool == "export" ? "target.db.exporting-" : "target.db.importing-", byLink: false)
        #expect(throws: SystemError.self) {
            switch tool {
            case "import":
                var tool = StoreImport(of: fixture.plain, to: target, unlockedBy: fixture.source)
                tool.configuration = program(moment)
                try tool.run()
            case "export":
                var tool = StoreExport(of: fixture.store, toInsecurePlaintext: target, unlockedBy: fixture.source)
                tool.configuration = program(moment)
                try tool.run()
            default:
                var tool = StoreSalvage(of: fixture.store, to: target, unlockedBy: fixture.source)
                tool.configuration = program(moment)
                try tool.run { _ in if moment == .before { self.swap.exchange() } }
            }
        }
        let now = try swap.contentOfExchanged()
        #expect(before.allSatisfy { now[$0.key] == $0.value })
        for (name, content) in now where before[name] == nil {
            let ending = name.hasPrefix("staged-") ? String(name.dropFirst(23)) : name
            #expect(Self.leftEndings.contains(ending), "\(name)")
            // Page 1 alone, which has no row of a table.
            if ending.isEmpty { #expect(content.count <= 4096, "\(name): \(content.count)") }
        }
        #expect(now.count <= before.count + 4)
    }

    @Test("an adoption reads its copy, not a file there, and leaves the original")
    func adoption() throws {
        try fixture.makeStandard()
        let original = try Data(contentsOf: URL(fileURLWithPath: fixture.store))
        let before = try swap.fill()
        swap.arm("app.db.adopting-")
        #expect(throws: (any Error).self) {
            try StoreAdoption(fixture.store, unlockedBy: fixture.source).run { [swap] progress in
                if progress.phase == .copyingFile { swap.exchange() }
            }
        }
        #expect(swap.isDone)
        #expect(try swap.changes(since: before) == [])
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.store)) == original)
        #expect(!Files.exists(fixture.store + "-sidecar"))
    }
}

/// Puts a link to a private directory in the place of a staging directory, once.
private final class DirectorySwap: Sendable {
    private let folder: String
    private let victim: String
    private let prefix = Mutex<String?>(nil)
    /// The path of the private directory, if it has got the name of the other one itself.
    private let exchanged = Mutex<String?>(nil)
    private let byLink = Mutex(true)

    init(folder: String, victim: String) { (self.folder, self.victim) = (folder, victim) }

    /// Makes the private directory with a file of every name that a database has.
    func fill() throws -> [String: Data] {
        try Files.makeDirectory(victim)
        for name in ["target.db", "app.db"] {
            for suffix in ["", "-wal", "-shm", "-journal", "-lock", "-sidecar", "-sidecar.bak", "-notify"] {
                let content = Data("precious \(name)\(suffix)".utf8)
                try content.write(to: URL(fileURLWithPath: "\(victim)/\(name)\(suffix)"))
            }
        }
        return try content()
    }

    func arm(_ prefix: String, byLink: Bool = true) {
        self.byLink.withLock { $0 = byLink }
        self.prefix.withLock { $0 = prefix }
    }
    var isDone: Bool { prefix.withLock { $0 == nil } }

    func exchange() {
        prefix.withLock { prefix in
            guard let wanted = prefix, let names = try? Files.names(inDirectory: folder),
                let name = names.first(where: { $0.hasPrefix(wanted) })
            else { return }
            prefix = nil
            let path = "\(folder)/\(name)"
            try? Files.rename(path, to: "\(folder)/away-\(name)")
            if byLink.withLock({ $0 }) {
                try? FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: victim)
            } else {
                try? Files.rename(victim, to: path)
                exchanged.withLock { $0 = path }
            }
        }
    }

    /// Removes the link, which another command would otherwise find.
    func removeLink() throws {
        for name in try Files.names(inDirectory: folder) where name.hasPrefix("target.db.") {
            try Files.remove("\(folder)/\(name)")
        }
    }

    /// The names whose content changed, and new names that do not say that they are staged.
    func changes(since before: [String: Data]) throws -> [String] {
        let now = try content()
        let lost = before.keys.filter { now[$0] != before[$0] }
        let new = now.keys.filter { before[$0] == nil && !$0.hasPrefix("staged-") }
        return (lost + new).sorted()
    }

    func contentOfExchanged() throws -> [String: Data] { try content(of: #require(exchanged.withLock { $0 })) }

    private func content() throws -> [String: Data] { try content(of: victim) }

    private func content(of folder: String) throws -> [String: Data] {
        var content: [String: Data] = [:]
        for name in try Files.names(inDirectory: folder) {
            content[name] = try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(name)"))
        }
        return content
    }
}
