import Foundation
import Testing

/// The fences, over this repository.
@Suite("The repository stays tidy")
struct RepositoryTests {
    private static let tree = Result { try SourceTree(root: repositoryRoot) }

    /// Tests/Tidy/RepositoryTests.swift stands three levels below it.
    private static let repositoryRoot = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private func expectNone(
        _ findings: (SourceTree) -> [Finding],
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let found = findings(try Self.tree.get())
        guard !found.isEmpty else { return }
        let report = found.map(\.description).joined(separator: "\n")
        Issue.record(Comment(rawValue: report), sourceLocation: sourceLocation)
    }

    @Test("the fences look at the whole tree: they find the layers' folders and their own file")
    func treeIsComplete() throws {
        let tree = try Self.tree.get()
        let folders = Set(tree.swiftFiles(in: "Sources").compactMap { $0.path.split(separator: "/").dropFirst().first })
        #expect(
            folders.isSuperset(of: [
                "StorePlatform", "StoreSharing", "StoreCrypto", "KeyCustody", "CipherDatabase", "CipherStore",
            ]))
        #expect(tree.exists("Tests/Tidy/RepositoryTests.swift"))
        #expect(tree.files.contains { $0.path == ".ci/setup" })
    }

    @Test("C libraries are imported behind their fences, and imports go down only")
    func imports() throws { try expectNone(ImportFence.findings) }

    @Test("StorePlatform knows no name of SQLite, no lock byte and no holder, and offsets of locks stand in one place")
    func sharing() throws { try expectNone(ImportFence.sharingFindings) }

    @Test("no Swift file has more than 600 lines, and no function more than 50")
    func sizes() throws { try expectNone(SizeFence.findings) }

    @Test("nothing in Sources is marked as unfinished")
    func unfinished() throws { try expectNone(WordFence.unfinished) }

    @Test("Sources hold no fatalError, try!, as! or force unwrap")
    func traps() throws { try expectNone(WordFence.traps) }

    @Test("every @unchecked and nonisolated(unsafe) says why it is safe")
    func promises() throws { try expectNone(WordFence.unexplainedPromises) }

    @Test("no function is itself the value of a Mutex")
    func functionsInLocks() throws { try expectNone(WordFence.functionsInLocks) }

    @Test("no value is taken for one of another type")
    func bitCasts() throws { try expectNone(WordFence.bitCasts) }

    @Test("no file names a path of one machine")
    func machinePaths() throws { try expectNone(WordFence.machinePaths) }

    @Test("Keys/manifest.json lists every file of Keys with its hash")
    func keys() throws { try expectNone(KeyFence.listing) }

    @Test("nothing looks like a real key")
    func realKeys() throws { try expectNone(KeyFence.realKeys) }

    @Test("documents and comments name the actor first, without translated idioms and long sentences")
    func language() throws { try expectNone(LanguageFence.findings) }

    @Test("tests do not sleep")
    func sleeps() throws { try expectNone(WordFence.sleeps) }

    @Test("each target has a README, which names what is there")
    func readmes() throws { try expectNone(ReadmeFence.findings) }

    @Test("`make check` leaves out tests that exist")
    func check() throws { try expectNone(CheckFence.findings) }

    @Test("no two suites or tests have one name, and each kind of tests has a README")
    func suiteNames() throws { try expectNone(SuiteFence.findings) }

    @Test("no two public types have one name")
    func typeNames() throws { try expectNone(NameFence.findings) }

    @Test("Docs/Testing.md names tests, scripts and targets that exist")
    func testing() throws { try expectNone(TestingFence.findings) }
}
