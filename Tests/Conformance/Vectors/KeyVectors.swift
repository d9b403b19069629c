import Foundation
import RecoveryShares
import StoreCrypto
import StorePlatform
import TestKit

@testable import KeyCustody

/// Derivations, recovery keys, their shares, sidecars and pairs of them, by the code of StoreCrypto, KeyCustody and
/// RecoveryShares.
enum KeyVectors {
    // MARK: Secrets

    static func secret(_ vector: ConformanceVector) throws -> Secret {
        if vector.headers["raw_key"] != nil { return .rawKey(try RawKey(bytes: vector.bytes("raw_key"))) }
        if vector.headers["device"] != nil { return try source(vector).read() }
        return .passphrase(try Passphrase(bytes: passphrase(vector)))
    }

    static func source(_ vector: ConformanceVector) throws -> KeySource {
        if let name = vector.headers["device"], let kind = Keyslot.Kind(rawValue: name) {
            return .token(KnownDevice(kind: kind, secret: SecretBytes(copying: try vector.bytes("device_secret"))))
        }
        return vector.headers["raw_key"] == nil
            ? .passphrase(bytes: try passphrase(vector)) : .rawKey(try vector.bytes("raw_key"))
    }

    private static func passphrase(_ vector: ConformanceVector) throws -> [UInt8] {
        if vector.headers["passphrase_hex"] != nil { return try vector.bytes("passphrase_hex") }
        guard let repeated = vector.headers["passphrase_repeat"] else {
            return Array(try vector.text("passphrase").utf8)
        }
        let words = repeated.split(separator: " ")
        guard words.count == 2, let byte = UInt8(words[0], radix: 16), let count = Int(words[1]) else {
            throw ConformanceVector.FormError.malformed(line: repeated)
        }
        return [UInt8](repeating: byte, count: count)
    }

    /// A device that gives one secret for each token of its kind.
    private struct KnownDevice: TokenDevice {
        let kind: Keyslot.Kind
        let secret: SecretBytes
        var name: String { kind.rawValue }

        func mayOpen(_ token: SlotToken) -> Bool { true }
        func wrapsAlone(_ former: SlotToken) -> Bool { false }
        func unwrap(_ token: SlotToken, of slot: TokenSlot) -> SecretBytes? { secret }
        func wrap(_ secret: SecretBytes, for store: StoreID, replacing former: SlotToken?) throws -> WrappedSecret {
            throw StoreError(.keyMissing, what: "It wraps nothing.", why: "No vector needs it.", remedy: "None.")
        }
    }

    // MARK: Derivations

    static func derivation(_ vector: ConformanceVector) throws -> VectorVerdict {
        switch try vector.text("function") {
        case "passphrase": _ = try Passphrase(bytes: passphrase(vector))
        case "raw-key": _ = try RawKey(bytes: vector.bytes("key"))
        case "salt": _ = try Salt(hex: vector.text("salt"))
        case let function: return .ok(["key": try derive(function, vector).hex])
        }
        return .ok()
    }

    private static func derive(_ function: String, _ vector: ConformanceVector) throws -> SecretBytes {
        let salt = try vector.bytes("salt")
        switch function {
        case "data-key":
            let settings = try PageVectors.settings(vector)
            return try passphrase(vector).withUnsafeBytes { try settings.deriveDataKey(passphrase: $0, salt: salt) }
        case "mac-key":
            let key = SecretBytes(copying: try vector.bytes("key"))
            return try PageVectors.settings(vector).deriveMacKey(dataKey: key, salt: salt)
        case "hkdf":
            return try KeyDerivation.hkdf(
                key: SecretBytes(copying: vector.bytes("key")), salt: salt, label: vector.text("label"),
                keyBytes: vector.number("bytes"))
        case "scrypt":
            let (log2Rounds, blockSize, lanes) = try (vector.number("log2_n"), vector.number("r"), vector.number("p"))
            return try passphrase(vector).withUnsafeBytes {
                try KeyDerivation.scrypt(
                    password: $0, salt: salt, log2Rounds: log2Rounds, blockSize: blockSize, lanes: lanes,
                    memoryLimitBytes: CustodyLimits.slotMemoryBytes, keyBytes: 32)
            }
        case "argon2id":
            let memoryKiB = try vector.number("memory_kib")
            let (iterations, lanes) = try (vector.number("iterations"), vector.number("lanes"))
            return try passphrase(vector).withUnsafeBytes {
                try KeyDerivation.argon2id(
                    password: $0, salt: salt, memoryKiB: memoryKiB, iterations: iterations, lanes: lanes, keyBytes: 32)
            }
        default: throw ConformanceVector.FormError.malformed(line: function)
        }
    }

    static func recovery(_ vector: ConformanceVector) throws -> VectorVerdict {
        do {
            let key = try vector.part("text").withUnsafeBytes { try RecoveryKey(reading: $0) }
            return .ok(["key": key.key.bytes.hex])
        } catch is RecoveryKey.ReadingError {
            return VectorVerdict("invalidKey")
        }
    }

    static func shares(_ vector: ConformanceVector) throws -> VectorVerdict {
        var set = RecoveryShareSet()
        do {
            for (_, text) in vector.parts.sorted(by: { $0.key < $1.key }) {
                try set.add(text.withUnsafeBytes { try RecoveryShare(reading: $0) })
            }
            let combination = try set.combine()
            let misfits = combination.misfits.map(String.init).joined(separator: ", ")
            return .ok(["key": combination.key.bytes.hex, "misfits": misfits.isEmpty ? "none" : misfits])
        } catch is RecoveryShare.ReadingError {
            return VectorVerdict("invalidKey")
        } catch let refusal as RecoveryShareSet.Refusal {
            guard case .missing = refusal else { return VectorVerdict("invalidKey") }
            return VectorVerdict("keyMissing")
        }
    }

    // MARK: Sidecars

    static func sidecar(_ vector: ConformanceVector) throws -> VectorVerdict {
        let read: UnauthenticatedSidecar
        do {
            read = try UnauthenticatedSidecar.parse(vector.part("sidecar"))
        } catch let error as SidecarSyntaxError {
            return verdict(error)
        }
        guard let keys = try secret(vector).unlock(read.claimed) else { return VectorVerdict("wrongKey") }
        switch try read.authenticate(keys) {
        case .wrongKey: return VectorVerdict("wrongKey")
        case .forged: return VectorVerdict("sidecarForged")
        case .genuine(let sidecar):
            var results = [
                "state": sidecar.state.rawValue, "epoch": "\(sidecar.epoch)", "generation": "\(sidecar.generation)",
                "data_key": try keys.dataKey(of: sidecar)?.secret.hex ?? "none",
                "slot": keys.openedBy.map { "\($0.id)" } ?? "none",
            ]
            if let successor = sidecar.successor {
                results["next_key"] = try keys.successor(of: sidecar)?.dataKey(of: successor)?.secret.hex ?? "none"
            }
            return .ok(results)
        }
    }

    private static func verdict(_ error: SidecarSyntaxError) -> VectorVerdict {
        switch error {
        case .versionAhead: VectorVerdict("sidecarAhead")
        case .malformed(let line, _), .outOfRange(let line, _): VectorVerdict("sidecarDamaged", ["line": "\(line)"])
        case .empty, .tooLong: VectorVerdict("sidecarDamaged")
        }
    }

    static func pair(_ vector: ConformanceVector) throws -> VectorVerdict {
        let folder = TemporaryFolder()
        let files = SidecarFiles(databasePath: folder.path("app.db"))
        for copy in SidecarCopy.allCases {
            guard let content = vector.parts[copy.rawValue] else { continue }
            try Data(content).write(to: URL(filePath: files.path(of: copy)))
        }
        let secret = try secret(vector)
        guard let choice = try files.choose(files.read(), unlock: { try secret.unlock($0) }) else {
            return VectorVerdict("saltMissing")
        }
        let notes = choice.notes.map(name).joined(separator: ", ")
        return .ok([
            "copy": choice.copy.rawValue, "generation": "\(choice.sidecar.generation)",
            "notes": notes.isEmpty ? "none" : notes,
        ])
    }

    private static func name(_ note: SidecarNote) -> String {
        switch note {
        case .restoredFromBackup: "restoredFromBackup"
        case .missing(let copy): "missing \(copy.rawValue)"
        case .unreadable(let copy, _): "unreadable \(copy.rawValue)"
        case .damaged(let copy, _): "damaged \(copy.rawValue)"
        case .forged(let copy): "forged \(copy.rawValue)"
        case .otherKey(let copy): "otherKey \(copy.rawValue)"
        case .stale(let copy, _, _): "stale \(copy.rawValue)"
        case .differing: "differing"
        }
    }
}
