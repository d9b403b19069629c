import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// The checks of header, sidecar and file modes.
struct FileChecks {
    let file: ExaminedFile

    private var paths: StorePaths { StorePaths(file.path) }

    func results() -> [CheckResult] { [header(), sidecar(), fileModes()] }

    // MARK: Header

    private func header() -> CheckResult {
        switch file.form {
        case .plain:
            return CheckResult(
                .header, .fail, "the file is plain SQLite: it is not encrypted", remedy: "Encrypt it: cipherctl import")
        case .sqlCipher(let key):
            return CheckResult(
                .header, .fail, Self.saltInHeader,
                "it is a file of SQLCipher, with pages of \(key.settings.pageBytes) bytes",
                remedy: "Make it a store: cipherctl adopt")
        case .store(let choice):
            if let key = file.pageKey, key.settings.plaintextHeaderBytes == 0 {
                return CheckResult(
                    .header, .fail, Self.saltInHeader,
                    remedy: "Adopt the file: move the sidecar away, then cipherctl adopt")
            }
            return header(choice.sidecar.settings)
        }
    }

    private static let saltInHeader =
        "the salt is in the first 16 bytes of the file, where a store has SQLite's header: other programs do not "
        + "recognise it as a database, and the sidecar does not protect the salt"

    private func header(_ settings: CipherSettings) -> CheckResult {
        let remedy = "Restore the store from a backup; cipherctl doctor says more."
        guard settings.plaintextHeaderBytes > 0 else {
            return CheckResult(.header, .fail, Self.saltInHeader, remedy: "Export the content and import it anew.")
        }
        let count = (try? file.file.byteCount) ?? 0
        let first = (try? file.file.bytes(at: 0, count: settings.pageBytes)) ?? []
        switch DatabaseHeader.examine(first, fileBytes: count, settings: settings) {
        case .plaintextHeader(let header):
            let walBytes = ((try? Files.byteCount(paths.wal)) ?? nil) ?? 0
            let isLength = walBytes > 0 || Int(header.pageCount) * settings.pageBytes == count
            return CheckResult(
                .header,
                findings: isLength
                    ? [] : ["the header counts \(header.pageCount) pages, and the file has \(count) bytes"],
                passing: [
                    "bytes 0 to 23 are those of a store with pages of \(settings.pageBytes) bytes",
                    walBytes > 0
                        ? "the WAL has \(walBytes) bytes, so it decides over the number of pages"
                        : "the page count of the header is that of the file: \(header.pageCount)",
                ], remedy: remedy)
        case .damagedHeader(let damage):
            return CheckResult(
                .header, .fail,
                "byte \(damage.offset) of the header holds \(damage.found) where \(damage.expected) belongs",
                remedy: remedy)
        case .opaque: return CheckResult(.header, .fail, Self.saltInHeader, remedy: remedy)
        default: return CheckResult(.header, .fail, "the beginning of the file is not that of a store", remedy: remedy)
        }
    }

    // MARK: Sidecar

    private func sidecar() -> CheckResult {
        guard case .store(let choice) = file.form else {
            return CheckResult(
                .sidecar, .fail,
                "there is no sidecar: nothing authenticates salt and settings, and no keyslot can be changed",
                remedy: file.pageKey == nil ? "Encrypt it: cipherctl import" : "Make it a store: cipherctl adopt")
        }
        if BackupBundle(holding: file.path) != nil {
            return CheckResult(.sidecar, .pass, "the sidecar of the backup is authenticated")
        }
        let sizes = [paths.sidecar, paths.sidecarBackup].compactMap { (try? Files.byteCount($0)) ?? nil }
        return CheckResult(
            .sidecar, findings: choice.notes.map(\.description),
            passing: [
                "both copies are authenticated by their MAC, at generation \(choice.sidecar.generation) and epoch "
                    + "\(choice.sidecar.epoch)",
                "they have \(sizes.map(String.init).joined(separator: " and ")) bytes of at most \(StorePlatform.Limits.sidecarBytes)",
            ], remedy: "Open the store once for writing, which repairs a copy; cipherctl doctor says more.")
    }

    // MARK: File modes

    private func fileModes() -> CheckResult {
        let files = [
            ("database", paths.database), ("WAL", paths.wal), ("shared memory", paths.sharedMemory),
            ("sidecar", paths.sidecar), ("second copy of the sidecar", paths.sidecarBackup), ("lock file", paths.lock),
            ("key log", KeyLog(databasePath: paths.database).path), ("rollback journal", paths.journal),
        ]
        var findings: [String] = []
        var passing: [String] = []
        for (noun, path) in files {
            guard let status = (try? Files.status(of: path)) ?? nil else { continue }
            let mode = String(status.permissions & 0o777, radix: 8)
            if status.kind != .regular {
                findings.append("the \(noun) is not a regular file")
            } else if status.permissions & 0o002 != 0 {
                findings.append("every user may write the \(noun) (mode \(mode))")
            } else if status.permissions & 0o004 != 0 {
                findings.append("every user may read the \(noun) (mode \(mode))")
            } else {
                passing.append("\(noun): mode \(mode)")
            }
        }
        return CheckResult(
            .fileModes, findings: findings, passing: passing,
            remedy: "Remove the rights of others: chmod o-rw. With the sidecar, passphrases can be tried without limit."
        )
    }
}
