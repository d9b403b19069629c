import Foundation
import StorePlatform
import Testing

@testable import ChangesetSync

/// Every call that a writer makes is the last one of its process once, and fails once; in each way with
/// `CIPHERSTORE_FAULTS=all` in the environment.
@Suite("A directory remote whose writers are killed")
struct RemoteCrashTests {
    private static let includesAll = ProcessInfo.processInfo.environment["CIPHERSTORE_FAULTS"] == "all"

    private enum Ending: CaseIterable { case kill, powerFailure, powerFailureOfObjects }

    /// What must hold whenever a writer stopped: each listed object is whole, and the list is a part of the log.
    private func check(_ scratch: RemoteScratch, _ objects: [RemoteObject], _ comment: Comment) async throws {
        let page = try await scratch.remote().list(after: RemoteCursor(), limit: 100)
        let positioned = objects.filter { $0.position != nil }
        #expect(page.entries.map(\.id) == positioned.prefix(page.entries.count).map(\.id), comment)
        #expect(page.stalled.isEmpty, comment)
        let found = try await scratch.remote().get(objects.map(\.id))
        let whole = Dictionary(uniqueKeysWithValues: objects.map { ($0.id, $0.bytes) })
        #expect(found.allSatisfy { $0.bytes == whole[$0.id] }, comment)
        let there = Set(found.map(\.id))
        #expect(page.entries.allSatisfy { there.contains($0.id) }, comment)
        if !page.entries.isEmpty {
            // What has no position of its own comes before what does.
            #expect(objects.filter { $0.position == nil }.allSatisfy { there.contains($0.id) }, comment)
        }
    }

    @Test("killed at any call, alone or by a power failure, a put loses nothing, and the next one completes it")
    func killedAnywhere() async throws {
        for (number, ending) in Ending.allCases.enumerated() {
            let step = Self.includesAll ? 1 : Ending.allCases.count
            var call = number + 1 - step
            while true {
                call += step
                let scratch = try RemoteScratch()
                // Two parts, then what names them; an author with three entries.
                let objects = [scratch.object(70), scratch.object(71)] + scratch.objects(3)
                scratch.disk.restart(killedAt: call)
                let first = try? await scratch.faulty().put(objects)
                let comment: Comment = "\(ending), killed at call \(call): \(scratch.disk.steps.last ?? "")"
                guard scratch.disk.isDead else {
                    #expect(first?.count == objects.count)
                    break
                }
                #expect(first == nil, comment)
                switch ending {
                case .kill: break
                case .powerFailure: scratch.disk.cutPower()
                case .powerFailureOfObjects: scratch.disk.cutPower(withLogs: false)
                }
                try await check(scratch, objects, comment)
                scratch.disk.restart()
                let second = try await scratch.faulty().put(objects)
                #expect(second.allSatisfy { $0 == .stored || $0 == .alreadyPresent }, comment)
                // What is acknowledged is durable, also what the killed one had put.
                scratch.disk.cutPower()
                let page = try await scratch.remote().list(after: RemoteCursor(), limit: 100)
                #expect(page.entries.count == 3 && page.stalled.isEmpty, comment)
                #expect(try await scratch.remote().get(objects.map(\.id)).count == objects.count, comment)
            }
            #expect(call > 40)
        }
    }

    @Test("what the first put acknowledged survives a power failure")
    func durable() async throws {
        let scratch = try RemoteScratch()
        let objects = scratch.objects(100) + [scratch.object(500)]
        #expect(try await scratch.faulty().put(objects).count == 101)
        scratch.disk.cutPower()
        #expect(try await scratch.listAll(scratch.remote()).entries.count == 100)
        #expect(try await scratch.remote().get(objects.map(\.id)).count == 101)
        // The same by the process that has the folders synced already.
        let remote = scratch.faulty()
        _ = try await remote.put(objects)
        let more = [scratch.object(900, sequence: 101)]
        _ = try await remote.put(more)
        scratch.disk.cutPower()
        #expect(try await scratch.listAll(scratch.remote()).entries.count == 101)
    }

    private static let errors = [ENOSPC, EIO, EROFS, EACCES]

    @Test("a full disk, at any call and for any time, is reported and loses nothing", arguments: errors)
    func failing(number: Int32) async throws {
        let place = try #require(Self.errors.firstIndex(of: number))
        for forever in [false, true] {
            let step = Self.includesAll ? 1 : Self.errors.count
            var call = place + 1 - step
            while true {
                call += step
                let scratch = try RemoteScratch()
                let objects = [scratch.object(70)] + scratch.objects(2)
                scratch.disk.restart()
                scratch.disk.fail(at: call, with: number, forever: forever)
                let comment: Comment = "errno \(number) at call \(call)"
                do {
                    let results = try await scratch.faulty().put(objects)
                    #expect(results.count == 3, comment)
                    if !scratch.disk.hasFailed { break }
                } catch let RemoteError.unavailable(_, error) {
                    #expect(error.errorNumber == number, comment)
                }
                try await check(scratch, objects, comment)
                scratch.disk.restart()
                _ = try await scratch.faulty().put(objects)
                scratch.disk.cutPower()
                #expect(try await scratch.listAll(scratch.remote()).entries.count == 2, comment)
            }
            #expect(call > 25)
        }
    }

    @Test("a listing and a reading that fail at any call report it, and skip nothing", arguments: [EIO, EACCES])
    func failingReader(number: Int32) async throws {
        let scratch = try RemoteScratch()
        let objects = scratch.objects(3) + scratch.objects(2, author: Samples.author(1))
        _ = try await scratch.remote().put(objects)
        var call = 0
        while true {
            call += 1
            scratch.disk.restart()
            scratch.disk.fail(at: call, with: number, forever: false)
            do {
                let page = try await scratch.faulty().list(after: RemoteCursor(), limit: 100)
                if !scratch.disk.hasFailed {
                    #expect(page.entries.count == 5)
                    break
                }
                #expect(Bool(false), "call \(call) was not reported: \(scratch.disk.steps.last ?? "")")
            } catch let RemoteError.unavailable(_, error) {
                #expect(error.errorNumber == number)
            }
        }
        #expect(call > 15)
        scratch.disk.restart()
        scratch.disk.fail(at: 5, with: number, forever: true)
        await #expect(throws: RemoteError.self) { try await scratch.faulty().get(objects.map(\.id)) }
    }

    // MARK: Filesystems that lack something

    @Test(
        "without hard links files are renamed, and never over one that is there", arguments: [EPERM, ENOTSUP, ENOSYS])
    func withoutLinks(number: Int32) async throws {
        let scratch = try RemoteScratch()
        scratch.disk.refuse([.link], with: number)
        let objects = scratch.objects(3)
        #expect(try await scratch.faulty().put(objects) == [.stored, .stored, .stored])
        #expect(try await scratch.faulty().put(objects).allSatisfy { $0 == .alreadyPresent })
        let other = scratch.remote()
        let object = scratch.object(9, sequence: 4)
        let theirs = scratch.object(9, bytes: [1, 2])
        let done = DispatchSemaphore(value: 0)
        scratch.disk.before(.renameExclusively) {
            Task {
                _ = try? await other.put([theirs])
                done.signal()
            }
            done.wait()
        }
        #expect(try await scratch.faulty().put([object]) == [.collision(.object)])
        #expect(try await scratch.remote().get([object.id]).first?.bytes == [1, 2])
        #expect(scratch.names("tmp").isEmpty)
    }

    @Test("without hard links and without such a renaming nothing is written")
    func withoutEither() async throws {
        let scratch = try RemoteScratch()
        scratch.disk.refuse([.link, .renameExclusively], with: EINVAL)
        do {
            _ = try await scratch.faulty().put(scratch.objects(1))
            #expect(Bool(false), "not refused")
        } catch let RemoteError.unsupportedFilesystem(_, error) {
            #expect(error.errorNumber == EINVAL)
        }
        #expect(scratch.names("tmp").isEmpty && scratch.names("log").isEmpty && scratch.names("objects").isEmpty)
    }

    @Test("a read-only folder is listed and read")
    func readOnly() async throws {
        let scratch = try RemoteScratch()
        let objects = scratch.objects(3)
        _ = try await scratch.remote().put(objects)
        let writing: [FaultyDisk.Step] = [.make, .create, .link, .renameExclusively, .rename, .remove, .syncFolder]
        scratch.disk.refuse(writing, with: EROFS)
        #expect(try await scratch.listAll(scratch.faulty()).entries.count == 3)
        #expect(try await scratch.faulty().get(objects.map(\.id)).count == 3)
        do {
            _ = try await scratch.faulty().put([scratch.object(9, sequence: 4)])
            #expect(Bool(false), "not refused")
        } catch let RemoteError.unavailable(_, error) { #expect(error.isPermission) }
    }

    @Test("a real folder without permissions is reported", .enabled(if: geteuid() != 0, "root may read everything"))
    func withoutPermissions() async throws {
        let scratch = try RemoteScratch()
        _ = try await scratch.remote().put(scratch.objects(2))
        for (folder, permissions) in [(scratch.own, 0o500), (scratch.own + "/log", 0)] {
            try FileManager.default.setAttributes([.posixPermissions: permissions], ofItemAtPath: folder)
            defer { try? FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: folder) }
            await #expect(throws: RemoteError.self) {
                if permissions == 0 { _ = try await scratch.listAll(scratch.remote()) }
                _ = try await scratch.remote().put([scratch.object(9, author: Samples.author(5), sequence: 1)])
            }
        }
    }

    // MARK: Leftovers

    @Test("what killed writers have left is removed after a day, and what others use is not")
    func leftovers() async throws {
        let scratch = try RemoteScratch()
        _ = try await scratch.remote().put(scratch.objects(1))
        let files = FileManager.default
        let (old, young) = ("\(scratch.own)/tmp/\(Samples.author(1))", "\(scratch.own)/tmp/\(Samples.author(2))")
        let foreign = "\(scratch.own)/tmp/notes.txt"
        for file in [old, young, foreign] { try scratch.write(to: file, contents: Data([1])) }
        for file in [old, foreign] {
            try files.setAttributes([.modificationDate: Date(timeIntervalSinceNow: -90_000)], ofItemAtPath: file)
        }
        try files.setAttributes([.modificationDate: Date(timeIntervalSinceNow: -80_000)], ofItemAtPath: young)
        _ = try await scratch.remote().put(scratch.objects(1))
        #expect(scratch.names("tmp") == [Files.name(of: young), "notes.txt"].sorted())
    }
}

@Suite("Cursors of remotes")
struct RemoteCursorTests {
    @Test("a cursor moves over entries without gaps only")
    func contiguous() {
        var cursor = RemoteCursor()
        func position(_ sequence: UInt64) -> LogPosition { LogPosition(author: Samples.author(), sequence: sequence) }
        #expect(!cursor.advance(after: position(2)) && cursor == RemoteCursor())
        #expect(cursor.advance(after: position(1)) && cursor.advance(after: position(2)))
        #expect(cursor.advance(after: position(1)) && cursor.sequence(of: Samples.author()) == 2)
        #expect(!cursor.advance(after: position(4)) && !cursor.contains(position(3)) && cursor.contains(position(2)))
        #expect(cursor.sequence(of: Samples.author(1)) == 0)
        cursor.forget(Samples.author())
        #expect(cursor == RemoteCursor())
    }

    @Test("a cursor comes back from its bytes, equal ones have equal bytes, and others are refused")
    func encoding() throws {
        var cursor = RemoteCursor()
        let authors = [7, 3, 200, 90].map { Samples.author($0) }
        for (count, author) in authors.enumerated() {
            for sequence in 0...count {
                cursor.advance(after: LogPosition(author: author, sequence: UInt64(sequence + 1)))
            }
        }
        let bytes = cursor.encoded
        #expect(bytes.count == 1 + 4 * 24 && RemoteCursor(decoding: bytes) == cursor)
        #expect(RemoteCursor(decoding: RemoteCursor().encoded) == RemoteCursor())
        let entry = Array(bytes[1..<25])
        let wrongs: [[UInt8]] = [[], [2], bytes.dropLast(), bytes + [0], [1] + entry + entry]
        for wrong in wrongs {
            #expect(RemoteCursor(decoding: wrong) == nil)
        }
        let swapped = [1] + bytes[25..<49] + entry
        #expect(RemoteCursor(decoding: Array(swapped)) == nil)
        #expect(RemoteCursor(decoding: [1] + entry.prefix(16) + [UInt8](repeating: 0, count: 8)) == nil)
    }
}
