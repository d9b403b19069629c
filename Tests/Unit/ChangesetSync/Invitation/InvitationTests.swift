import CipherDatabase
import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform
import FormerSimulation
import Testing

@testable import ChangesetSync

@Suite("Invitations")
struct InvitationTests {
    private static let rawKey = [UInt8](repeating: 0x2A, count: 32)
    private let source = KeySource.rawKey(rawKey)

    private func code(_ body: () throws -> some Any) -> InvitationError.Code? {
        do {
            _ = try body()
            return nil
        } catch { return (error as? InvitationError)?.code }
    }

    private func syncCode(_ body: () throws -> some Any) -> SyncError.Code? {
        do {
            _ = try body()
            return nil
        } catch { return (error as? SyncError)?.code }
    }

    /// A store with the table of players, and no repository yet.
    private func newcomer() throws -> (queue: DatabaseQueue, repository: ChangesetRepository) {
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: Replica.players) }
        return (queue, ChangesetRepository(queue))
    }

    /// The invitation of the document.
    private func example() throws -> Invitation {
        let secret = try source.read()
        let key = try SourceKey(
            of: secret, purpose: Invitation.label, derivation: .hkdf, salt: Salt(bytes: Array(0xC0..<0xD0)))
        return try Invitation(Samples.key(), RemoteAddress("dir:/mnt/share"), key, nonce: Array(0xD0..<0xDC))
    }

    /// The same bytes with a checksum that fits them.
    private func withChecksum(_ bytes: [UInt8]) throws -> [UInt8] {
        let content = Array(bytes.dropLast(Invitation.checksumBytes))
        var digest = try ContentDigest()
        content.withUnsafeBytes { digest.update($0) }
        return content + (try digest.finish())
    }

    // MARK: Joining

    @Test(
        "a store that joins gets the key, reads what others push, and learns where the remote is, without credentials")
    func joining() async throws {
        let first = try Replica()
        try first.run("INSERT INTO player VALUES (1, 'Ann', 10)")
        let address = try RemoteAddress("postgresql://ann:secret@db.example/app?sslmode=verify-full&password=other")
        let invitation = try first.repository.invitation(lockedBy: source, remote: address)
        let (queue, repository) = try newcomer()
        let found = try repository.join(
            Invitation(bytes: invitation.bytes), unlockedBy: .rawKey(Self.rawKey), tables: ["player"])
        #expect(found == (try RemoteAddress("postgresql://db.example/app?sslmode=verify-full")))
        #expect(try repository.id == first.repository.id)
        let remote = MemoryRemote(try repository.id)
        for manager in [SyncManager(first.repository, remote: remote), SyncManager(repository, remote: remote)] {
            try await manager.setup()
            try await manager.sync()
        }
        let names = try queue.inDatabase { try String.fetchAll($0, sql: "SELECT name FROM player") }
        #expect(names == ["Ann"])
        // Once more changes nothing.
        try repository.join(invitation, unlockedBy: source, tables: ["player"])
        #expect(try repository.verify().isEmpty)
    }

    @Test("a passphrase is stretched as that of a keyslot, and opens the invitation; another one does not")
    func passphrase() throws {
        let first = try Replica()
        let invitation = try first.repository.invitation(lockedBy: .passphrase("open sesame"))
        #expect(invitation.derivation == .standard)
        let (_, repository) = try newcomer()
        #expect(
            code { try repository.join(invitation, unlockedBy: .passphrase("open seseme"), tables: ["player"]) }
                == .wrongKey)
        #expect(syncCode { try repository.id } == .notEnabled)
        try repository.join(invitation, unlockedBy: .passphrase("open sesame"), tables: ["player"])
        #expect(try repository.id == first.repository.id)
    }

    @Test("a store of another repository does not join, and no key is asked for; unfit tables change nothing")
    func refusals() throws {
        let (first, other) = (try Replica(), try Replica())
        let invitation = try first.repository.invitation(lockedBy: source)
        let never = KeySource.customRawKey("never") { throw CancellationError() }
        let refusal = syncCode { try other.repository.join(invitation, unlockedBy: never, tables: ["player"]) }
        #expect(refusal == .otherRepository)
        let (queue, repository) = try newcomer()
        #expect(
            syncCode { try repository.join(invitation, unlockedBy: source, tables: ["player", "team"]) }
                == .unsuitableTable)
        #expect(syncCode { try repository.id } == .notEnabled)
        #expect(try queue.inDatabase { try $0.tableExists(SyncTables.state) } == false)
        #expect(syncCode { try repository.invitation(lockedBy: source) } == .notEnabled)
        // The same repository with another key.
        let key = try first.queue.inDatabase { try RepositoryState.key($0) }
        let later = try Invitation(
            RepositoryKey(repository: key.repository, epoch: 2, secret: key.secret), nil, lockedBy: source.read())
        #expect(code { try first.repository.join(later, unlockedBy: never, tables: ["player"]) } == .otherEpoch)
    }

    @Test("rows that a joining store has already are a commit of its own, and none is lost")
    func joiningWithRows() async throws {
        let first = try Replica()
        try first.run("INSERT INTO player VALUES (1, 'Ann', 10)")
        let (queue, repository) = try newcomer()
        try queue.inDatabase { try $0.execute(sql: "INSERT INTO player VALUES (2, 'Ben', 20)") }
        try repository.join(
            first.repository.invitation(lockedBy: source), unlockedBy: source, tables: ["player"])
        let remote = MemoryRemote(try repository.id)
        let managers = [SyncManager(first.repository, remote: remote), SyncManager(repository, remote: remote)]
        for manager in managers { try await manager.setup() }
        for manager in managers + managers { try await manager.sync() }
        let names = try queue.inDatabase { try String.fetchAll($0, sql: "SELECT name FROM player ORDER BY id") }
        #expect(names == ["Ann", "Ben"])
        #expect(try first.strings("SELECT count(*) FROM player") == ["2"])
    }

    // MARK: Bytes

    @Test("whatever byte is changed, the invitation is refused", arguments: [false, true])
    func everyByte(fixesChecksum: Bool) throws {
        let bytes = try example().bytes
        let secret = try source.read()
        let last = fixesChecksum ? bytes.count - Invitation.checksumBytes : bytes.count
        for position in 0..<last {
            for mask: UInt8 in [1, 0x10, 0x80, 0xFF] {
                var changed = bytes
                changed[position] ^= mask
                if fixesChecksum { changed = try withChecksum(changed) }
                let found = code { try Invitation(bytes: changed).open(with: secret) }
                let expected: Set<InvitationError.Code> =
                    switch position {
                    case 0..<4: [.notAnInvitation]
                    case 4: [.newerVersion]
                    case 56..<60: [.damaged, .truncated]
                    default: fixesChecksum ? [.wrongKey, .damaged] : [.damaged]
                    }
                let isExpected = found.map(expected.contains) == true
                #expect(isExpected, "byte \(position) ^ \(mask): \(String(describing: found))")
            }
        }
    }

    @Test("whatever its length is, an invitation with another one is refused")
    func everyLength() throws {
        let bytes = try example().bytes
        for count in bytes.indices {
            let found = code { try Invitation(bytes: Array(bytes[..<count])) }
            #expect(found == (count == 0 ? .notAnInvitation : .truncated), "\(count) bytes")
        }
        for extra in [1, 16, 2000] {
            let found = code { try Invitation(bytes: bytes + [UInt8](repeating: 0, count: extra)) }
            #expect(found == .damaged)
        }
        #expect(code { try Invitation(bytes: Array("SQLite format 3\0".utf8)) } == .notAnInvitation)
    }

    @Test("neither key, nor address, nor user is readable in the file, in texts, or in what a debugger shows")
    func secrecy() throws {
        let invitation = try example()
        let key = try Samples.key()
        var texts = ["\(invitation)", "\(Mirror(reflecting: invitation).children.count)"]
        for code: InvitationError.Code in [.wrongKey, .damaged, .truncated] { texts.append("\(InvitationError(code))") }
        let address = try RemoteAddress("postgresql://ann:geheim@db/app?sslpassword=geheim&pass%77ord=geheim&user=ann")
        texts += ["\(address)", String(reflecting: address), "\(address.withoutCredentials)"]
        #expect(!texts.joined().contains("geheim") && !texts.last!.contains("ann"))
        for count in [8, 16, 32] {
            let part = key.secret.withBytes { Array($0.prefix(count)) }
            #expect(Data(invitation.bytes).range(of: Data(part)) == nil)
        }
        #expect(Data(invitation.bytes).range(of: Data("mnt".utf8)) == nil)
    }

    // MARK: Files

    @Test("a file is its owner's alone, appears as a whole, and replaces nothing")
    func file() throws {
        let scratch = try RemoteScratch()
        let path = scratch.path + "/app.invitation"
        let invitation = try example()
        try invitation.write(to: path)
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path) == ["app.invitation"])
        #expect(try Invitation(contentsOf: path) == invitation)
        #expect(code { try invitation.write(to: path) } == .alreadyExists)
        try FileManager.default.createSymbolicLink(atPath: scratch.path + "/link", withDestinationPath: "nowhere")
        #expect(code { try invitation.write(to: scratch.path + "/link") } == .alreadyExists)
        #expect(try Invitation(contentsOf: path) == invitation)
        try Data(count: 1 << 20).write(to: URL(filePath: scratch.path + "/large"))
        #expect(code { try Invitation(contentsOf: scratch.path + "/large") } == .notAnInvitation)
        #expect(throws: SystemError.self) { try Invitation(contentsOf: scratch.path + "/none") }
        #expect(throws: SystemError.self) { try invitation.write(to: scratch.path + "/no/folder") }
    }

    // MARK: Document

    private static let document = Samples.root.appending(path: "Docs/Formats/Invitation.md")

    @Test("Docs/Formats/Invitation.md has the offsets of the code, and its example")
    func documented() throws {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        let offsets: KeyValuePairs<String, Int> = [
            "magic": Invitation.Offset.magic, "version": Invitation.Offset.version,
            "derivation": Invitation.Offset.derivation, "reserved": Invitation.Offset.reserved,
            "epoch": Invitation.Offset.epoch, "repository": Invitation.Offset.repository,
            "salt": Invitation.Offset.salt, "sealedBytes": Invitation.Offset.sealedBytes,
            "nonce": Invitation.Offset.nonce, "sealed": Invitation.Offset.sealed,
        ]
        var next = 0
        for (name, offset) in offsets {
            let row = text.split(separator: "\n").first { $0.contains("`Invitation.Offset.\(name)`") }
            let cells = (row ?? "").split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            #expect(cells.first == String(offset), "\(name)")
            #expect(offset == next, "\(name)")
            if let count = cells.dropFirst().first.flatMap({ Int($0) }) { next = offset + count }
        }
        let dump = try example().bytes
        let lines = stride(from: 0, to: dump.count, by: 16).map { offset in
            String(repeating: " ", count: 4 - String(offset).count) + "\(offset)  "
                + dump[offset..<min(offset + 16, dump.count)].map { String(format: "%02x", $0) }.joined(separator: " ")
        }
        #expect(text.contains("\n" + lines.joined(separator: "\n") + "\n"))
    }

    /// Older modules cannot derive the key of a passphrase where this library does it by Argon2id.
    private static var canDerive: Bool {
        let module = "from cryptography.hazmat.primitives.kdf.argon2 import Argon2id"
        return !KeyDerivation.hasArgon2id || (try? EnvelopeReaderTests.run(["-c", module]).status) == 0
    }

    @Test(
        "another implementation, written from the document alone, opens an invitation",
        .enabled(if: EnvelopeReaderTests.isPossible, "python3 with the module cryptography is not here"),
        arguments: [true, false])
    func independentReader(isPassphrase: Bool) throws {
        if isPassphrase && !Self.canDerive { try Test.cancel("the module cryptography has no Argon2id here") }
        let scratch = try RemoteScratch()
        let (file, key) = (scratch.path + "/app.invitation", scratch.path + "/key")
        try FileManager.default.createDirectory(atPath: scratch.path, withIntermediateDirectories: true)
        let secret = isPassphrase ? "open sesame" : String(repeating: "0f", count: 32)
        try Data("\(secret)\n".utf8).write(to: URL(filePath: key))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
        let invitation = try Invitation(
            Samples.key(), RemoteAddress("dir:/mnt/share"), lockedBy: KeySource.keyFile(path: key).read())
        try invitation.write(to: file)
        let script = Samples.root.appending(path: "Keys/generators/read_invitation.py").path
        let found = try EnvelopeReaderTests.run([script, file, "--key-file", key])
        let expected = (0..<32).map { String(format: "%02x", $0) }.joined()
        let text = found.lines.joined()
        #expect(
            found.status == 0 && text.contains("\"secret\": \"\(expected)\"") && text.contains("\"dir:/mnt/share\""))
        try Data("\(secret.reversed())\n".utf8).write(to: URL(filePath: key))
        #expect(try EnvelopeReaderTests.run([script, file, "--key-file", key]).status != 0)
    }
}
