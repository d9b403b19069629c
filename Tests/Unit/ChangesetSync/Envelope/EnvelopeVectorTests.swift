import Foundation
import StoreCrypto
import Testing

@testable import ChangesetSync

/// `Keys/generators/read_envelopes.py`, written from Docs/Formats/Envelope.md alone, made the vectors and the example.
@Suite("Envelopes of another implementation")
struct EnvelopeVectorTests {
    struct Vector: Decodable, Sendable, CustomTestStringConvertible {
        struct Object: Decodable, Sendable {
            var id: String
            var bytes: Int
            var header: String
            var sha256: String
        }
        var name: String
        var repository: String
        var secret: String
        var epoch: UInt32
        var author: String
        var pseudonym: String
        var count: Int
        var parents: [String]
        var generation: UInt64
        var objects: [Object]

        var testDescription: String { name }
    }

    private struct VectorFile: Decodable { var vectors: [Vector] }

    static let vectors: [Vector] = {
        let file = Samples.root.appending(path: "Keys/vectors/envelopes.json")
        return try! JSONDecoder().decode(VectorFile.self, from: Data(contentsOf: file)).vectors
    }()

    static func bytes(_ hexadecimal: String) -> [UInt8] {
        let digits = Array(hexadecimal.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).map {
            UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)!
        }
    }

    private static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { String(format: "%02x", $0) }.joined()
    }

    private static func digest(_ bytes: [UInt8]) throws -> [UInt8] {
        var digest = try ContentDigest()
        bytes.withUnsafeBytes { digest.update($0) }
        return try digest.finish()
    }

    /// SHA-256 of `<name>/0`, `<name>/1` and so on, as in the generator.
    private static func stream(_ name: String, _ count: Int) throws -> [UInt8] {
        let blocks = try (0..<(count + 31) / 32).flatMap { try digest(Array("\(name)/\($0)".utf8)) }
        return Array(blocks.prefix(count))
    }

    @Test("the same commit is sealed to the same bytes", arguments: vectors)
    func seals(vector: Vector) throws {
        let key = try RepositoryKey(
            repository: RepositoryID(vector.repository)!, epoch: vector.epoch,
            secret: SecretBytes(copying: Self.bytes(vector.secret)))
        let pseudonym = try Self.bytes(vector.author).withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
        #expect(pseudonym.description == vector.pseudonym)
        let commit = CommitContent(
            parents: vector.parents.compactMap { ObjectID($0) }, author: pseudonym, generation: vector.generation,
            canonical: try Self.stream(vector.name, vector.count))
        let envelopes = try key.seal(commit)
        #expect(envelopes.map(\.id.description) == vector.objects.map(\.id))
        #expect(envelopes.map(\.bytes.count) == vector.objects.map(\.bytes))
        for (envelope, object) in zip(envelopes, vector.objects) {
            #expect(Self.hexadecimal(envelope.bytes.prefix(88)) == object.header)
            #expect(Self.hexadecimal(try Self.digest(envelope.bytes)) == object.sha256)
        }
        let isSame = try key.openAll(envelopes) == commit
        #expect(isSame)
    }

    // MARK: The document

    private static func document() throws -> [Substring] {
        let file = Samples.root.appending(path: "Docs/Formats/Envelope.md")
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
    }

    @Test("the table of Docs/Formats/Envelope.md has the offsets of the code")
    func offsets() throws {
        let constants: [String: Int] = [
            "magic": EnvelopeHeader.Offset.magic, "version": EnvelopeHeader.Offset.version,
            "kind": EnvelopeHeader.Offset.kind, "parentCount": EnvelopeHeader.Offset.parentCount,
            "reserved": EnvelopeHeader.Offset.reserved, "epoch": EnvelopeHeader.Offset.epoch,
            "bodyBytes": EnvelopeHeader.Offset.bodyBytes, "repository": EnvelopeHeader.Offset.repository,
            "id": EnvelopeHeader.Offset.id, "author": EnvelopeHeader.Offset.author,
            "generation": EnvelopeHeader.Offset.generation, "parents": EnvelopeHeader.Offset.parents,
        ]
        var documented: [String: Int] = [:]
        var end = 0
        for line in try Self.document() {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count >= 4, cells[2].hasPrefix("`EnvelopeHeader.Offset."), let offset = Int(cells[0]) else {
                continue
            }
            documented[String(cells[2].dropFirst("`EnvelopeHeader.Offset.".count).dropLast())] = offset
            #expect(offset == end, "\(cells[2])")
            end = offset + (Int(cells[1]) ?? 0)
        }
        #expect(documented == constants)
    }

    @Test("the example of Docs/Formats/Envelope.md is what the code makes")
    func example() throws {
        var values: [String: String] = [:]
        var dump: [UInt8] = []
        for line in try Self.document() {
            let parts = line.split(separator: " ", omittingEmptySubsequences: true).map(String.init)
            if parts.count > 1, Int(parts[0]) == dump.count, parts.dropFirst().allSatisfy({ $0.count == 2 }) {
                dump += parts.dropFirst().compactMap { UInt8($0, radix: 16) }
            } else if let last = parts.last, last.count >= 32, last.allSatisfy(\.isHexDigit) {
                values[parts.dropLast().joined(separator: " ")] = last
            }
        }
        func value(_ name: String) throws -> [UInt8] { Self.bytes(try #require(values[name], "\(name)")) }
        let key = try RepositoryKey(
            repository: RepositoryID(bytes: value("repository"))!, epoch: 1,
            secret: SecretBytes(copying: value("secret")))
        let author = try (0xC0..<0xD0).map { UInt8($0) }.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
        #expect(author.description == values["pseudonym"])
        let commit = CommitContent(
            parents: [ObjectID(bytes: try value("parent"))!], author: author, generation: 2,
            canonical: try value("canonical"))
        #expect(commit.canonical == Array("a row of a table".utf8))
        let envelope = try key.seal(commit)[0]
        #expect(envelope.id.description == values["commit id"])
        #expect(envelope.bytes == dump)
    }
}

/// Runs the reader of the other implementation on a folder that this library has written.
@Suite("A reader of a remote by another implementation")
struct EnvelopeReaderTests {
    static func run(_ arguments: [String]) throws -> (status: Int32, lines: [String]) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3"] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (
            process.terminationStatus, String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
        )
    }

    static let isPossible = (try? run(["-c", "import cryptography"]).status) == 0

    @Test(
        "it decrypts every commit, and refuses a changed one",
        .enabled(if: isPossible, "python3 with the module cryptography is not here"))
    func reads() async throws {
        let scratch = try RemoteScratch()
        let key = try RepositoryKey(
            repository: scratch.repository, epoch: 3, secret: SecretBytes(copying: (0..<32).map { UInt8($0) * 3 }))
        let contents = [
            Samples.bytes(0), Samples.bytes(300), Samples.bytes(2 * Limits.objectPlaintextBytes + 5),
        ]
        var objects: [RemoteObject] = []
        for (index, canonical) in contents.enumerated() {
            let envelopes = try key.seal(Samples.commit(canonical, parents: index))
            for envelope in envelopes {
                let isLast = envelope.id == envelopes.last?.id
                let position = isLast ? LogPosition(author: Samples.author(), sequence: UInt64(index + 1)) : nil
                objects.append(
                    RemoteObject(
                        repository: key.repository, id: envelope.id, position: position, bytes: envelope.bytes))
            }
        }
        _ = try await scratch.faulty().put(objects)
        let keyFile = scratch.path + "-key"
        defer { try? FileManager.default.removeItem(atPath: keyFile) }
        try scratch.write(to: keyFile, contents: Data(key.secret.withBytes { Array($0) }))
        let script = Samples.root.appending(path: "Keys/generators/read_envelopes.py").path
        let arguments = [
            script, scratch.path, "--repository", "\(key.repository)", "--key-file", keyFile, "--epoch", "3",
        ]
        let found = try Self.run(arguments)
        #expect(found.status == 0 && found.lines.count == 3)
        for (line, canonical) in zip(found.lines, contents) {
            var digest = try ContentDigest()
            canonical.withUnsafeBytes { digest.update($0) }
            let expected = try digest.finish().map { String(format: "%02x", $0) }.joined()
            #expect(line.contains("\"sha256\": \"\(expected)\"") && line.contains("\"bytes\": \(canonical.count)"))
        }
        var changed = objects[1].bytes
        changed[200] ^= 1
        try scratch.write(to: scratch.file(of: objects[1].id), contents: Data(changed))
        #expect(try Self.run(arguments).status != 0)
    }
}
