import Foundation
import StorePlatform
import Testing

@testable import ChangesetSync

private func remoteError(_ body: () async throws -> some Any) async -> RemoteError? {
    do {
        _ = try await body()
        return nil
    } catch { return error as? RemoteError }
}

@Suite("Directory remotes")
struct DirectoryRemoteTests {
    private let scratch: RemoteScratch

    init() throws { scratch = try RemoteScratch() }

    @Test("what one replica has put, another lists and gets; putting it again changes nothing")
    func exchange() async throws {
        let objects = scratch.objects(3) + [scratch.object(9)]
        #expect(try await scratch.remote().put(objects) == [.stored, .stored, .stored, .stored])
        #expect(try await scratch.remote().put(objects) == Array(repeating: .alreadyPresent, count: 4))
        let page = try await scratch.remote().list(after: RemoteCursor(), limit: 10)
        #expect(page.entries == objects.prefix(3).map { RemoteEntry(id: $0.id, position: $0.position!) })
        #expect(!page.hasMore && page.stalled.isEmpty && page.next.sequence(of: Samples.author()) == 3)
        let again = try await scratch.remote().list(after: page.next, limit: 10)
        #expect(again.entries.isEmpty && again.next == page.next)
        let wanted = [objects[3].id, Samples.id(77), objects[0].id]
        let found = try await scratch.remote().get(wanted)
        #expect(found.map(\.id) == [objects[3].id, objects[0].id])
        #expect(found.map(\.bytes) == [objects[3].bytes, objects[0].bytes])
        #expect(scratch.names("tmp").isEmpty)
        #expect(scratch.names("") == ["format", "log", "objects", "tmp"])
        #expect(scratch.remote().name == "dir:" + scratch.path)
        // However its path is written: otherwise a store would have two remotes.
        let other = DirectoryRemote(path: scratch.path + "//./", repository: scratch.remote().repository)
        #expect(other.name == scratch.remote().name)
    }

    @Test("two replicas push the same merge: it is one object, in the logs of both")
    func sameObject() async throws {
        let (one, other) = (Samples.author(1), Samples.author(2))
        let merge = scratch.object(5, author: one, sequence: 1)
        let same = RemoteObject(
            repository: merge.repository, id: merge.id, position: LogPosition(author: other, sequence: 1),
            bytes: merge.bytes)
        #expect(try await scratch.remote().put([merge]) == [.stored])
        #expect(try await scratch.remote().put([same]) == [.alreadyPresent])
        let entries = try await scratch.listAll(scratch.remote()).entries
        #expect(entries.map(\.position.author) == [one, other] && Set(entries.map(\.id)) == [merge.id])
    }

    @Test("another content under an identifier, and another object at a position, are collisions that change nothing")
    func collisions() async throws {
        let objects = scratch.objects(3)
        _ = try await scratch.remote().put(objects)
        let forged = scratch.object(2, sequence: 2, bytes: [1, 2, 3])
        let results = try await scratch.remote().put([objects[0], forged, objects[2]])
        #expect(results == [.alreadyPresent, .collision(.object)])
        #expect(try await scratch.remote().get([forged.id]).first?.bytes == objects[1].bytes)
        let copied = scratch.object(50, sequence: 3)
        let next = scratch.object(51, sequence: 4)
        #expect(try await scratch.remote().put([copied, next]) == [.collision(.position)])
        let page = try await scratch.remote().list(after: RemoteCursor(), limit: 10)
        #expect(page.entries.map(\.id) == objects.map(\.id) && page.stalled.isEmpty)
        #expect(scratch.names("tmp").isEmpty)
    }

    @Test(
        "of two writers of one identifier at the same moment, both succeed with the same bytes, one with different ones"
    )
    func race() async throws {
        let mine = scratch.object(3, author: Samples.author(1), sequence: 1)
        for bytes in [mine.bytes, Samples.bytes(60, seed: 99)] {
            let scratch = try RemoteScratch()
            let theirs = scratch.object(3, author: Samples.author(2), sequence: 1, bytes: bytes)
            let other = scratch.remote()
            let done = DispatchSemaphore(value: 0)
            // The folders exist, so that the first link is that of the object.
            _ = try await scratch.remote().put([scratch.object(300)])
            scratch.disk.before(.link) {
                Task {
                    _ = try? await other.put([theirs])
                    done.signal()
                }
                done.wait()
            }
            let results = try await scratch.faulty().put([mine])
            #expect(results == [bytes == mine.bytes ? .alreadyPresent : .collision(.object)])
            #expect(try await scratch.remote().get([mine.id]).first?.bytes == bytes)
            let entries = try await scratch.listAll(scratch.remote()).entries
            #expect(entries.count == (bytes == mine.bytes ? 2 : 1))
            #expect(scratch.names("tmp").isEmpty)
        }
    }

    /// An object that another writer put there between the two looks at its name was reported as a collision.
    @Test("an object that appears while its name is looked at is compared, and no collision")
    func appearing() async throws {
        let object = scratch.object(3, author: Samples.author(1), sequence: 1)
        _ = try await scratch.remote().put([scratch.object(300), scratch.object(3 + 256)])
        let file = scratch.file(of: object.id)
        scratch.disk.before(.status, of: object.id.description) { [scratch] in
            try? scratch.write(to: file, contents: Data(object.bytes))
        }
        #expect(try await scratch.faulty().put([object]) == [.alreadyPresent])
    }

    @Test("many writers at once lose nothing")
    func crowd() async throws {
        let authors = (0..<6).map { Samples.author(UInt8($0 * 16)) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for author in authors {
                group.addTask { [scratch] in
                    let objects = scratch.objects(20, author: author)
                    for half in [objects.prefix(7), objects.dropFirst(7)] {
                        let results = try await scratch.faulty().put(Array(half))
                        #expect(results.allSatisfy { $0 == .stored || $0 == .alreadyPresent })
                    }
                }
            }
            try await group.waitForAll()
        }
        let entries = try await scratch.listAll(scratch.remote(), limit: 17).entries
        #expect(entries.count == 120)
        for author in authors {
            let own = entries.filter { $0.position.author == author }
            #expect(own.map(\.position.sequence) == Array(1...20))
            #expect(own.map(\.id) == (1...20).map { Samples.id($0) })
        }
        #expect(scratch.names("tmp").isEmpty)
    }

    // MARK: Listing

    /// Writes objects and entries as they stand, without the syncs of a writer.
    private func plant(_ count: Int, author: AuthorPseudonym, from first: Int) throws {
        let files = FileManager.default
        try files.createDirectory(atPath: "\(scratch.own)/log/\(author)", withIntermediateDirectories: true)
        for index in 0..<count {
            let id = Samples.id(first + index)
            let shard = "\(scratch.own)/objects/\(id.description.prefix(2))"
            if !Files.exists(shard) {
                try files.createDirectory(atPath: shard, withIntermediateDirectories: true)
            }
            try scratch.write(to: "\(shard)/\(id)", contents: Data([1]))
            try scratch.write(to: scratch.entry(author, UInt64(index + 1)), contents: Data("\(id)\n".utf8))
        }
    }

    @Test("1,000 entries of five authors are listed in pages, each once and in the order of its log")
    func pages() async throws {
        for author in 0..<5 { try plant(200, author: Samples.author(UInt8(author * 20)), from: author * 200) }
        let (entries, pages) = try await scratch.listAll(scratch.remote(), limit: 99)
        #expect(entries.count == 1000 && Set(entries.map(\.id)).count == 1000)
        #expect(pages >= 11)
        for author in 0..<5 {
            let own = entries.filter { $0.position.author == Samples.author(UInt8(author * 20)) }
            let isOrdered = own.map(\.position.sequence) == Array(1...200)
            #expect(isOrdered)
        }
        let single = try await scratch.listAll(scratch.remote(), limit: .max)
        #expect(single.entries.count == 1000)
        let first = try await scratch.remote().list(after: RemoteCursor(), limit: 0)
        #expect(first.entries.count == 1 && first.hasMore)
    }

    @Test("an author who has much to list does not keep the others waiting")
    func fairness() async throws {
        try plant(500, author: Samples.author(0), from: 0)
        try plant(3, author: Samples.author(0x80), from: 1000)
        let page = try await scratch.remote().list(after: RemoteCursor(), limit: 10)
        #expect(page.entries.count == 8 && page.hasMore)
        #expect(page.next.sequence(of: Samples.author(0x80)) == 3)
    }

    @Test("a gap ends the part of its author for now, whatever follows it, and nobody else's")
    func gaps() async throws {
        let (one, other) = (Samples.author(1), Samples.author(2))
        try plant(5, author: one, from: 0)
        try plant(5, author: other, from: 100)
        let files = FileManager.default
        let entry = scratch.entry(one, 3)
        let content = try #require(files.contents(atPath: entry))
        let position = LogPosition(author: one, sequence: 3)
        func stall() async throws -> RemoteStall.Reason? {
            let page = try await scratch.remote().list(after: RemoteCursor(), limit: 100)
            #expect(page.entries.filter { $0.position.author == one }.count == 2)
            #expect(page.entries.filter { $0.position.author == other }.count == 5)
            #expect(page.next.sequence(of: one) == 2 && !page.hasMore)
            #expect(page.stalled.map(\.position) == [position])
            return page.stalled.first?.reason
        }
        try files.removeItem(atPath: entry)
        #expect(try await stall() == .entryMissing)
        for damaged in [Data(), content.dropLast(), content + [10], Data(repeating: 0x30, count: 65)] {
            try scratch.write(to: entry, contents: damaged)
            #expect(try await stall() == .entryDamaged)
        }
        try files.removeItem(atPath: entry)
        try files.createSymbolicLink(atPath: entry, withDestinationPath: scratch.entry(other, 3))
        #expect(try await stall() == .entryDamaged)
        try files.removeItem(atPath: entry)
        try scratch.write(to: entry, contents: content)
        try files.removeItem(atPath: scratch.file(of: Samples.id(2)))
        #expect(try await stall() == .objectMissing(Samples.id(2)))
        try scratch.write(to: scratch.file(of: Samples.id(2)), contents: Data([1]))
        let page = try await scratch.remote().list(after: RemoteCursor(), limit: 100)
        #expect(page.entries.count == 10 && page.stalled.isEmpty)
    }

    // MARK: What others put there

    @Test("foreign files are ignored, and a truncated or overlong object comes as it is")
    func foreignFiles() async throws {
        let objects = scratch.objects(2)
        _ = try await scratch.remote().put(objects)
        for name in ["README", "objects/.DS_Store", "log/.DS_Store", "log/NotAnAuthor", "log/\(Samples.author(9))"] {
            try scratch.write(to: "\(scratch.own)/\(name)", contents: Data("x".utf8))
        }
        let author = Samples.author()
        for name in ["3.tmp", "03", "0", "-1", "4 (conflicted copy)"] {
            try scratch.write(to: "\(scratch.own)/log/\(author)/\(name)", contents: Data("x".utf8))
        }
        let page = try await scratch.remote().list(after: RemoteCursor(), limit: 100)
        #expect(page.entries.map(\.id) == objects.map(\.id) && page.stalled.isEmpty)
        try Data(objects[0].bytes.prefix(7)).write(to: URL(filePath: scratch.file(of: objects[0].id)))
        try Data(count: 3 * Limits.envelopeBytes).write(to: URL(filePath: scratch.file(of: objects[1].id)))
        let found = try await scratch.remote().get(objects.map(\.id))
        #expect(found.map(\.bytes.count) == [7, Limits.envelopeBytes + 1])
        #expect(found[0].bytes == Array(objects[0].bytes.prefix(7)))
    }

    @Test("a truncated object or entry is completed by the next writer who has it whole")
    func completing() async throws {
        let objects = scratch.objects(2)
        _ = try await scratch.remote().put(objects)
        for count in [0, 1, 39] {
            let url = URL(filePath: scratch.file(of: objects[0].id))
            try Data(objects[0].bytes.prefix(count)).write(to: url)
            let entry = URL(filePath: scratch.entry(Samples.author(), 2))
            try Data("\(objects[1].id)".utf8.prefix(count)).write(to: entry)
            #expect(try await scratch.remote().put(objects) == [.stored, .alreadyPresent])
            #expect(try await scratch.remote().get([objects[0].id]).first?.bytes == objects[0].bytes)
            #expect(try await scratch.listAll(scratch.remote()).entries.count == 2)
        }
        #expect(scratch.names("tmp").isEmpty)
    }

    @Test(
        "a symbolic link inside the folder is not followed, wherever it leads",
        arguments: ["", "objects", "objects/00", "log", "log/author", "tmp"])
    func links(place: String) async throws {
        _ = try await scratch.remote().put(scratch.objects(2))
        let files = FileManager.default
        let outside = scratch.path + "-outside"
        defer { try? files.removeItem(atPath: outside) }
        let shard = scratch.names("objects")[0]
        let name = place.replacing("objects/00", with: "objects/\(shard)")
            .replacing("author", with: Samples.author().description)
        let path = name.isEmpty ? scratch.own : "\(scratch.own)/\(name)"
        try files.moveItem(atPath: path, toPath: outside)
        try files.createSymbolicLink(atPath: path, withDestinationPath: outside)
        let before = try files.subpathsOfDirectory(atPath: outside)
        // Of the temporary folder the first remote keeps nothing open either.
        let next = [scratch.object(1, author: Samples.author(), sequence: 3)] + [scratch.object(2)]
        let failure = await remoteError { try await scratch.remote().put(next) }
        switch failure {
        case .foreignEntry(_, let found): #expect(found == path)
        case .remoteRewound: #expect(name.hasPrefix("log/"))
        default: #expect(Bool(false), "\(String(describing: failure))")
        }
        #expect(try files.subpathsOfDirectory(atPath: outside) == before)
        if name != "tmp" {
            let listing = await remoteError { try await scratch.listAll(scratch.remote()) }
            let entries = try? await scratch.listAll(scratch.remote()).entries
            #expect(listing != nil || entries?.isEmpty == true)
        }
    }

    @Test("a symbolic link or a folder under the name of an object is not there, and nobody writes through it")
    func linkedObject() async throws {
        let object = scratch.objects(1)[0]
        _ = try await scratch.remote().put([object])
        let files = FileManager.default
        let file = scratch.file(of: object.id)
        let target = scratch.path + "/target"
        try scratch.write(to: target, contents: Data(object.bytes))
        try files.removeItem(atPath: file)
        try files.createSymbolicLink(atPath: file, withDestinationPath: target)
        #expect(try await scratch.remote().get([object.id]).isEmpty)
        #expect(try await scratch.remote().put([object]) == [.collision(.object)])
        let page = try await scratch.remote().list(after: RemoteCursor(), limit: 9)
        #expect(page.stalled.map(\.reason) == [.entryDamaged])
    }

    // MARK: Another remote than before

    @Test("an emptied, rewound or missing folder is told apart, and nothing is written to it")
    func rewound() async throws {
        let objects = scratch.objects(5)
        _ = try await scratch.remote().put(objects)
        let cursor = try await scratch.remote().list(after: RemoteCursor(), limit: 10).next
        let author = Samples.author()
        let last = RemoteError.remoteRewound(
            remote: scratch.remote().name, missing: LogPosition(author: author, sequence: 5))
        func expectRewound() async {
            #expect(await remoteError { try await scratch.remote().list(after: cursor, limit: 10) } == last)
            let next = scratch.object(6, sequence: 6)
            #expect(await remoteError { try await scratch.remote().put([next]) } == last)
            #expect((try? await scratch.remote().get([next.id]))?.isEmpty ?? true)
        }
        try FileManager.default.removeItem(atPath: scratch.entry(author, 5))
        await expectRewound()
        // Pushing again from there heals it.
        #expect(try await scratch.remote().put([objects[4]]) == [.alreadyPresent])
        #expect(try await scratch.remote().list(after: cursor, limit: 10).entries.isEmpty)
        try FileManager.default.removeItem(atPath: scratch.own + "/log")
        await expectRewound()
        try FileManager.default.removeItem(atPath: scratch.own)
        await expectRewound()
        #expect(!FileManager.default.fileExists(atPath: scratch.own))
        #expect(try await scratch.remote().list(after: RemoteCursor(), limit: 10).entries.isEmpty)
        try FileManager.default.removeItem(atPath: scratch.path)
        guard case .unavailable(_, let error) = await remoteError({ try await scratch.remote().put(objects) })
        else { return #expect(Bool(false), "not refused") }
        #expect(error.isNotFound)
        #expect(!FileManager.default.fileExists(atPath: scratch.path))
    }

    @Test("a folder that has only other repositories is refused, unless it may be shared")
    func otherRepository() async throws {
        let neighbour = Samples.repositoryID(0x11)
        let other = DirectoryRemote(path: scratch.path, repository: neighbour)
        let object = scratch.objects(1)[0]
        let theirs = RemoteObject(
            repository: neighbour, id: object.id, position: object.position, bytes: object.bytes)
        _ = try await other.put([theirs])
        let refused = RemoteError.otherRepository(remote: scratch.remote().name, found: [neighbour])
        #expect(await remoteError { try await scratch.remote().put([object]) } == refused)
        #expect(await remoteError { try await scratch.remote().list(after: RemoteCursor(), limit: 1) } == refused)
        let wrong = RemoteError.otherRepository(remote: scratch.remote().name, found: [neighbour])
        #expect(await remoteError { try await scratch.remote().put([theirs]) } == wrong)
        #expect(try await scratch.remote(sharedWithOthers: true).put([object]) == [.stored])
        #expect(try await scratch.remote().put([object]) == [.alreadyPresent])
        #expect(await remoteError { try await scratch.remote().put([theirs]) } == wrong)
        #expect(try await scratch.remote().repositories() == [neighbour, scratch.repository].sorted())
    }

    @Test("a folder of a newer version is refused, an unfinished format file is not")
    func versions() async throws {
        _ = try await scratch.remote().put(scratch.objects(1))
        let format = URL(filePath: scratch.own + "/format")
        #expect(try String(contentsOf: format, encoding: .utf8) == "cipherstore-remote 1\n")
        try Data("cipherstore-remote 2\n".utf8).write(to: format)
        let refused = RemoteError.unknownVersion(remote: scratch.remote().name, version: "cipherstore-remote 2")
        #expect(await remoteError { try await scratch.remote().put(scratch.objects(1)) } == refused)
        #expect(await remoteError { try await scratch.remote().list(after: RemoteCursor(), limit: 1) } == refused)
        #expect(await remoteError { try await scratch.remote().get([Samples.id(1)]) } == refused)
        try Data("ciphers".utf8).write(to: format)
        #expect(try await scratch.listAll(scratch.remote()).entries.count == 1)
        _ = try await scratch.remote().put(scratch.objects(1))
        #expect(try String(contentsOf: format, encoding: .utf8) == "cipherstore-remote 1\n")
    }

    @Test("what is wrong with the objects themselves is refused before anything is written")
    func invalid() async throws {
        let large = scratch.object(1, sequence: 1, bytes: [UInt8](repeating: 0, count: Limits.envelopeBytes + 1))
        let tooLarge = RemoteError.payloadTooLarge(
            large.id, byteCount: Limits.envelopeBytes + 1, limit: Limits.envelopeBytes)
        #expect(await remoteError { try await scratch.remote().put([large]) } == tooLarge)
        let zero = scratch.object(1, sequence: 0)
        #expect(await remoteError { try await scratch.remote().put([zero]) } == .invalidPosition(zero.position!))
        let skipping = [scratch.object(1, sequence: 1), scratch.object(2, sequence: 3)]
        let expected = RemoteError.invalidPosition(skipping[1].position!)
        #expect(await remoteError { try await scratch.remote().put(skipping) } == expected)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path).isEmpty)
        #expect(try await scratch.remote().put([]).isEmpty)
    }

    @Test("the remote has no plaintext, and only names that are identifiers")
    func noPlaintext() async throws {
        let key = try Samples.key()
        let secret = Array("the salary of a person".utf8)
        let commit = Samples.commit(Samples.bytes(Limits.objectPlaintextBytes) + secret)
        let envelopes = try key.seal(commit)
        let last = envelopes.count - 1
        let objects = envelopes.enumerated().map { index, envelope in
            RemoteObject(
                repository: key.repository, id: envelope.id,
                position: index == last ? LogPosition(author: Samples.author(), sequence: 1) : nil,
                bytes: envelope.bytes)
        }
        _ = try await scratch.remote().put(objects)
        let entries = try await scratch.listAll(scratch.remote()).entries
        #expect(entries.map(\.id) == [envelopes[last].id])
        let found = try await scratch.remote().get(envelopes.map(\.id))
        let opened = try key.openAll(found.map { Envelope(id: $0.id, bytes: $0.bytes) })
        let isSame = opened == commit
        #expect(isSame)
        let paths = try #require(FileManager.default.enumerator(atPath: scratch.path)).compactMap { $0 as? String }
        let sampleOfPlaintext = Array(commit.canonical[1000..<1016])
        for path in paths {
            let bytes = Array(FileManager.default.contents(atPath: scratch.path + "/" + path) ?? Data())
            for needle in [secret, sampleOfPlaintext, Array("salary".utf8)] {
                let isThere = bytes.indices.contains { bytes[$0...].starts(with: needle) }
                #expect(!isThere, "\(path)")
            }
        }
    }

    @Test("a cancelled call stops between two objects, and the next one does the rest")
    func cancellation() async throws {
        let objects = scratch.objects(5)
        let (reached, cancelled) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        scratch.disk.before(.link) {
            reached.signal()
            cancelled.wait()
        }
        let task = Task { [scratch] in try await scratch.faulty().put(objects) }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                reached.wait()
                continuation.resume()
            }
        }
        task.cancel()
        cancelled.signal()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await scratch.listAll(scratch.remote()).entries.isEmpty)
        let rest = try await scratch.remote().put(objects)
        #expect(rest.allSatisfy { $0 == .stored || $0 == .alreadyPresent })
        #expect(try await scratch.listAll(scratch.remote()).entries.count == 5)
    }
}
