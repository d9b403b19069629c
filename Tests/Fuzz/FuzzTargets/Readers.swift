import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto

extension FuzzTarget {
    /// Parsers of files and texts. Each accepts only what it would write itself, so what it has read gives its bytes
    /// again.
    static let readers = [
        FuzzTarget("sidecar") { bytes in
            let read = try UnauthenticatedSidecar.parse(bytes)
            try check(read.bytes == bytes, "a sidecar keeps its bytes")
            // Nobody could compute the codes of bytes that are not in the corpus, under these keys.
            for keys in FuzzKeys.sidecarKeys {
                if case .genuine(let sidecar) = try read.authenticate(keys) {
                    try check(sidecar.encoded(keys: keys) == bytes, "a genuine sidecar is the one that its keys seal")
                }
            }
        },
        FuzzTarget("key-log") { bytes in
            for line in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
                guard let entry = try KeyLogEntry(reading: Array(line)) else { continue }
                try check(Array(entry.line.utf8) == Array(line), "an entry of the key log is its line")
            }
        },
        FuzzTarget("backup-manifest") { bytes in
            let read = try BackupManifest.parse(bytes)
            try check(read.bytes == bytes, "a manifest gives its bytes again")
        },
        FuzzTarget("recovery-key") { bytes in
            let key = try bytes.withUnsafeBytes { try RecoveryKey(reading: $0) }
            let text = key.text()
            let again = try text.withBytes { try RecoveryKey(reading: $0) }
            try check(again.text().isEqual(to: text), "a recovery key reads what it writes")
        },
        FuzzTarget("key-source") { bytes in
            let path = FuzzFolder.write(bytes, to: "key")
            defer { FuzzFolder.remove("key") }
            let secret = try? KeySource.keyFile(path: path).read()
            let ends = bytes.last == UInt8(ascii: "\n") ? 1 : 0
            try check(secret == nil || bytes.count > ends, "an empty file gives no passphrase")
            let rawKey = try? KeySource.rawKeyFile(path: path).read()
            try check((rawKey != nil) == (bytes.count == RawKey.byteCount), "a raw key is 32 bytes, any 32 bytes")
        },
        FuzzTarget("header") { bytes in
            for settings in [nil, CipherSettings(), CipherSettings(plaintextHeaderBytes: 32)] {
                let first = Array(bytes.prefix(100))
                let verdict = DatabaseHeader.examine(first, fileBytes: bytes.count, settings: settings)
                guard case .plaintextHeader = verdict else { continue }
                try check(bytes.prefix(16).elementsEqual(DatabaseHeader.magic), "a valid header begins as SQLite's")
            }
        },
    ]
}

/// Keys that the corpora are made with. They protect nothing.
enum FuzzKeys {
    static let raw = SecretBytes(copying: (0..<32).map { UInt8($0) })
    static let sidecarKeys: [SidecarKeys] = (try? [.direct(DataKey(raw))]) ?? []
}

/// A folder of the process for the files of its inputs; in memory, where the system has such a folder.
enum FuzzFolder {
    static let path: String = {
        let parent = FileManager.default.fileExists(atPath: "/dev/shm") ? "/dev/shm" : NSTemporaryDirectory()
        let path = parent + "/cipherstore-fuzz-\(ProcessInfo.processInfo.processIdentifier)"
        try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        atexit { try? FileManager.default.removeItem(atPath: FuzzFolder.path) }
        return path
    }()

    /// Writes a file that only its owner may read; returns its path.
    static func write(_ bytes: [UInt8], to name: String) -> String {
        let file = path + "/" + name
        let isWritten = FileManager.default.createFile(
            atPath: file, contents: Data(bytes), attributes: [.posixPermissions: 0o600])
        precondition(isWritten, "The folder \(path) cannot be written.")
        return file
    }

    static func remove(_ name: String) { try? FileManager.default.removeItem(atPath: path + "/" + name) }

    static func contents(_ name: String) -> [UInt8]? {
        FileManager.default.contents(atPath: path + "/" + name).map { [UInt8]($0) }
    }
}
