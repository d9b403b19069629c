@testable import ChangesetSync
import Foundation
import StoreCrypto

/// Keys and commits of tests: fixed, public, and no real ones.
enum Samples {
    static let root = (0..<5).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }

    static func key(repository: UInt8 = 0xA0, epoch: UInt32 = 1, secret: UInt8 = 0) throws -> RepositoryKey {
        try RepositoryKey(
            repository: repositoryID(repository), epoch: epoch,
            secret: SecretBytes(copying: (0..<32).map { secret &+ $0 }))
    }

    static func repositoryID(_ first: UInt8 = 0xA0) -> RepositoryID {
        RepositoryID(bytes: (0..<16).map { first &+ $0 })!
    }

    /// An identifier for each number; those of numbers that follow each other begin differently.
    static func id(_ number: Int) -> ObjectID {
        ObjectID(bytes: (0..<32).map { UInt8(truncatingIfNeeded: number >> (8 * min($0, 3))) ^ UInt8($0 / 4) })!
    }

    static func author(_ first: UInt8 = 0xC0) -> AuthorPseudonym {
        AuthorPseudonym(bytes: (0..<16).map { first &+ $0 })!
    }

    /// Bytes without a pattern that repeats within a chunk.
    static func bytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        return (0..<count).map { _ in
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return UInt8(truncatingIfNeeded: state >> 24)
        }
    }

    static func commit(_ canonical: [UInt8], parents: Int = 1) -> CommitContent {
        CommitContent(
            parents: (0..<parents).map { id(1000 + $0) }, author: author(), generation: 7, canonical: canonical)
    }
}

extension RepositoryKey {
    /// Opens what ``seal(_:identifier:)`` made, as one who fetches does.
    func openAll(_ envelopes: [Envelope]) throws -> CommitContent {
        switch try open(envelopes.last!.bytes, id: envelopes.last!.id) {
        case .commit(let content): return content
        case .manifest(var assembly):
            let parts = Dictionary(uniqueKeysWithValues: envelopes.map { ($0.id, $0.bytes) })
            for chunk in assembly.chunks { try assembly.add(parts[chunk]!, with: self) }
            return try assembly.finish(with: self)
        case .chunk: throw EnvelopeError.authenticationFailed(envelopes.last!.id)
        }
    }
}
