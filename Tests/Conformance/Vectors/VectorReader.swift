import Foundation
import StoreCrypto
import Synchronization

/// Holds this package's code against the vectors of Keys/conformance.
enum VectorReader {
    /// Tests/Conformance/Vectors/VectorReader.swift is four levels below the root.
    static let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
    static let folder = root.appending(path: "Keys/conformance")

    /// The verdict about one vector, and whether it is the expected one.
    struct Outcome: Sendable, Encodable {
        let vector: String
        let verdict: String
        /// Of what was found, the values that the vector names.
        let results: [String: String]
        let agrees: Bool
        let expected: String

        private enum CodingKeys: String, CodingKey { case vector, verdict, results, agrees }
    }

    static func verdict(_ vector: ConformanceVector) -> VectorVerdict {
        do {
            return switch vector.kind {
            case "derivation": try KeyVectors.derivation(vector)
            case "recovery": try KeyVectors.recovery(vector)
            case "shares": try KeyVectors.shares(vector)
            case "sidecar", "keyslot": try KeyVectors.sidecar(vector)
            case "sidecar-pair": try KeyVectors.pair(vector)
            case "encryption": try PageVectors.encryption(vector)
            case "page": try PageVectors.page(vector)
            case "header": try PageVectors.header(vector)
            case "wal": try PageVectors.wal(vector)
            case "rotation": try StoreVectors.rotation(vector)
            case "backup": try StoreVectors.backup(vector)
            case "keylog": try StoreVectors.keylog(vector)
            case "store": try StoreVectors.store(vector)
            case "standard": try StoreVectors.standard(vector)
            default: VectorVerdict("unknown kind \(vector.kind)")
            }
        } catch {
            return VectorVerdict(error)
        }
    }

    static func outcome(_ name: String) throws -> Outcome {
        let vector = try ConformanceVector(name, in: folder)
        let expected = vector.expectedResults
        if vector.headers["needs"] == "argon2id", !KeyDerivation.hasArgon2id {
            return Outcome(vector: name, verdict: "unavailable", results: [:], agrees: true, expected: vector.expect)
        }
        let verdict = verdict(vector)
        let found = verdict.results.filter { expected[$0.key] != nil }
        return Outcome(
            vector: name, verdict: verdict.name, results: found,
            agrees: verdict.name == vector.expect && found == expected,
            expected: "\(vector.expect) \(expected)")
    }

    /// The outcomes of many vectors, several at a time: some wait before they call a page damaged.
    static func outcomes(_ names: [String]) throws -> [Outcome] {
        let found = Mutex<[Result<Outcome, any Error>]>([])
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 8
        for name in names {
            queue.addOperation {
                let result = Result { try outcome(name) }
                found.withLock { $0.append(result) }
            }
        }
        queue.waitUntilAllOperationsAreFinished()
        return try found.withLock { try $0.map { try $0.get() } }.sorted { $0.vector < $1.vector }
    }
}
