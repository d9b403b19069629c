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
    /// Why the library refuses the store, as far as that concerns its sidecar.
    var refusal: StoreError?

    private var paths: StorePaths { StorePaths(file.path) }

    func results() -> [CheckResult] { [header(), sidecar()] }

    // MARK: Header

    func header() -> CheckResult {
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
        let inFile = DatabaseHeader.examine(first, fileBytes: count, settings: settings)
        let verdict = try? WALContent.verdict(of: file.path, first: first, fileBytes: count, settings: settings)
        switch verdict ?? inFile {
        case .plaintextHeader:
            let (finding, passing) = pageCount(settings)
            return CheckResult(
                .header, findings: finding.map { [$0] } ?? [],
                passing: ["bytes 0 to 23 are those of a store with pages of \(settings.pageBytes) bytes", passing],
                remedy: remedy)
        case .damagedHeader(let damage):
            return CheckResult(
                .header, .fail,
                "byte \(damage.offset) of the header holds \(damage.found) where \(damage.expected) belongs",
                remedy: remedy)
        case .opaque(let traits) where traits.isZero:
            return CheckResult(
                .header, .fail, "the beginning of the file is all zeros: page 1 was wiped, or never written",
                remedy: remedy)
        case .tooShort(let bytes, _):
            return CheckResult(
                .header, .fail, "the file has \(CountText.text(bytes, "byte")), fewer than any page", remedy: remedy)
        default: return CheckResult(.header, .fail, "the beginning of the file is not that of a store", remedy: remedy)
        }
    }

    /// Compares the page count of the header with the WAL and the length of the file.
    ///
    /// - Returns: What is wrong, or nil; and a sentence for a pass.
    private func pageCount(_ settings: CipherSettings) -> (finding: String?, passing: String) {
        do {
            if let fault = try WALContent.lengthFault(of: file.path, pageBytes: settings.pageBytes) {
                return (fault.text, "")
            }
            return (nil, "the page count of the header is that of the last commit")
        } catch {
            return ("the page count of the header cannot be read", "")
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
        if let refusal {
            return CheckResult(.sidecar, .fail, refusal.what, refusal.why, remedy: refusal.remedy)
        }
        if BackupBundle(holding: file.path) != nil {
            return CheckResult(.sidecar, .pass, "the sidecar of the backup is authenticated")
        }
        let sizes = [paths.sidecar, paths.sidecarBackup].compactMap { (try? Files.byteCount($0)) ?? nil }
        return CheckResult(
            .sidecar, findings: file.lastingNotes(choice).map(\.description),
            passing: [
                "both copies are authenticated by their MAC, at generation \(choice.sidecar.generation) and epoch "
                    + "\(choice.sidecar.epoch)",
                "they have \(sizes.map(String.init).joined(separator: " and ")) bytes of at most \(CustodyLimits.sidecarBytes)",
            ], remedy: "Open the store once for writing, which repairs a copy; cipherctl doctor says more.")
    }

    // MARK: File modes

    /// Read before the store is opened: SQLite gives an empty WAL the mode of the database.
    func fileModes() -> CheckResult {
        let files = [
            ("database", paths.database), ("WAL", paths.wal), ("shared memory", paths.sharedMemory),
            ("sidecar", paths.sidecar), ("second copy of the sidecar", paths.sidecarBackup), ("lock file", paths.lock),
            ("key log", KeyLog(databasePath: paths.database).path), ("rollback journal", paths.journal),
        ]
        var (findings, remedies): ([String], Set<String>) = ([], [])
        var passing: [String] = []
        for (noun, path) in files {
            guard let status = FilePermissions.status(of: path, paths) else { continue }
            let mode = String(status.permissions & 0o777, radix: 8)
            if status.kind != .regular {
                findings.append("the \(noun) is not a regular file")
                remedies.insert("Move away what is not a regular file.")
            } else if status.permissions & 0o002 != 0 {
                findings.append("every user may write the \(noun) (mode \(mode))")
                remedies.insert(Self.narrower)
            } else if status.permissions & 0o004 != 0 {
                findings.append("every user may read the \(noun) (mode \(mode))")
                remedies.insert(Self.narrower)
            } else {
                passing.append("\(noun): mode \(mode)")
            }
        }
        return CheckResult(
            .fileModes, findings: findings, passing: passing, remedy: remedies.sorted().joined(separator: " "))
    }

    private static let narrower =
        "Remove the rights of others: chmod o-rw. With the sidecar, passphrases can be tried without limit."
}
