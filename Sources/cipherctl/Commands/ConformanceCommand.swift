import CipherStore
import EncryptionConformance
import Foundation
import KeyCustody
import StorePlatform
import StoreTools

/// `conformance STORE`: holds a store against every check, and writes reports.
struct ConformanceCommand: Command {
    static let syntax = CommandSyntax(
        name: "conformance",
        summary: "check every promise of a store's encryption, with evidence; exit code 65 or 2 when a check fails",
        operands: [OperandSyntax("STORE", "the store, which may be in use, the folder of a backup, or any database")],
        options: [
            OptionSyntax("--report", value: "FILE", "write a page of HTML with a map of the file; FILE must not exist"),
            OptionSyntax("--junit", value: "FILE", "write the results as JUnit XML; FILE must not exist"),
            OptionSyntax(
                "--former-key", value: "FILE",
                "what `key reveal --json` printed before a rotation: no page may be under that key", isRepeatable: true),
            OptionSyntax("--canary", "write a marker into the store, search its files for it, and remove it"), .json,
            .quiet, .progress,
        ] + KeyOptions.all,
        examples: [
            "cipherctl conformance app.db --key-file app.key",
            "cipherctl conformance app.db --report report.html --key-file app.key",
            "cipherctl conformance app.db --junit conformance.xml --json --key-file app.key",
        ],
        notes: [
            "Each check says what it proves, what it cannot prove, and what was seen. Attacks are made on a sample store "
                + "among the temporary files: those that nothing within the files can show are known limits, and no "
                + "failure.",
            "The exit code is 65 when header, sidecar, pages, WAL, content, vectors or ciphertext fail, and 2 when only "
                + "others do. A store that is being rotated is refused; nothing is changed without --canary.",
            "A file that is no store, such as plain SQLite or a file of SQLCipher, is checked as well: the report says "
                + "what it lacks.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = arguments.operands[0]
        let files = ["--report", "--junit"].compactMap { arguments.value($0) }.map { URL(filePath: $0).standardized }
        if Set(files).count < files.count {
            throw UsageError("Both reports have the same name.", hint: "Give two names.")
        }
    }

    /// With a marker it leaves the store as it was only when it ends by itself.
    var changesFiles: Bool { arguments.has("--canary") }

    /// It has a sample store to remove before it ends.
    var endsBySignal: Bool { true }

    func run(_ console: Console) throws -> ExitCode {
        if changesFiles {
            // From here on a signal ends it at the next check: sample and marker are removed.
            _ = Interruption.shared
        } else {
            Self.endAtOnce(isJSON: console.isJSON)
        }
        let html = try NewReport(arguments.value("--report"), besides: path)
        let junit = try NewReport(arguments.value("--junit"), besides: path)
        let unused = KeySource.custom("key of the command line") { throw CancellationError() }
        var store = StoreFile(path, unlockedBy: unused)
        store.allowsCanary = arguments.has("--canary")
        store.formerKeys = try arguments.values("--former-key").map(Self.formerKey)
        let report: Conformance.Report
        do {
            report = try console.run(Conformance(of: store, key: ToolKey(arguments)), "checking")
        } catch {
            // The thread that the signal has woken says so, and ends the process.
            while Interruption.shared.isSet, !changesFiles { Thread.sleep(forTimeInterval: 1) }
            throw error
        }
        // Before the files: a disk that is full must not take the result with it.
        if console.isJSON {
            try console.output.line(report.json)
        } else {
            for line in report.lines { try console.line(line) }
        }
        try html?.write(report.html)
        try junit?.write(report.junit)
        for written in [html, junit] { if let written { console.note("wrote \"\(written.path)\"") } }
        return Self.exitCode(report)
    }

    /// Lets a signal end the program wherever it is, as in `integrity_check`.
    private static func endAtOnce(isJSON: Bool) {
        Interruption.shared.whenSet {
            Conformance.removeSamples {
                Interruption.exit(interruptionHint, isJSON: isJSON)
            }
        }
    }

    private static func exitCode(_ report: Conformance.Report) -> ExitCode {
        if report.isConformant {
            if report.isIncomplete { return .notPermitted }
            return report.needsAttention ? .needsAttention : .ok
        }
        let ofData: Set<Check> = [.header, .sidecar, .pages, .walFrames, .content, .vectors, .ciphertext]
        return report.failures.contains { ofData.contains($0.check) } ? .damagedData : .needsAttention
    }

    private struct Revealed: Decodable {
        let key, salt: String
        let headerBytes: Int

        enum CodingKeys: String, CodingKey {
            case key, salt
            case headerBytes = "plaintext_header_bytes"
        }
    }

    private static func formerKey(_ path: String) throws -> FormerKey {
        let contents = try KeyFile.contents(of: path, checkingPermissions: true, isForStore: false)
        let decoded = contents.withBytes { try? JSONDecoder().decode(Revealed.self, from: Data($0)) }
        guard let revealed = decoded,
            let key = Hex.bytes(revealed.key.utf8), key.count == RawKey.byteCount
        else {
            throw UsageError(
                "\"\(path)\" is not what `key reveal --json` prints.", hint: "See: cipherctl help key reveal")
        }
        guard revealed.headerBytes == 0 || (16...96).contains(revealed.headerBytes) && revealed.headerBytes % 16 == 0
        else {
            throw UsageError(
                "\"\(path)\" names a plaintext header of \(revealed.headerBytes) bytes, which no page has.",
                hint: "`key reveal --json` prints 32, or 0 for a file of SQLCipher. See: cipherctl help key reveal")
        }
        return FormerKey(
            try RawKey(bytes: key), salt: try Salt(hex: revealed.salt), plaintextHeaderBytes: revealed.headerBytes)
    }
}

/// A report file that must not exist yet.
private struct NewReport {
    let path: String

    /// - Returns: Nil when no report was asked for.
    /// - Parameter store: The store that is checked.
    /// - Throws: ``CommandFailure`` when something is at the path or its directory is missing; `ToolError` `storeName` when
    ///   it is a name of the store's own files; `StoreError` `storeName` when its directory lies behind a link of another
    ///   user; `SystemError` when no file can be made there.
    init?(_ path: String?, besides store: String) throws {
        guard let path else { return nil }
        self.path = path
        if try Files.entryExists(path) { throw Self.taken(path) }
        try ToolError.requireForeign(path, to: store, "report")
        guard try Files.kind(Files.directory(of: path)) == .directory else {
            throw CommandFailure(
                .noSuchStore, "noDirectory", what: "\"\(path)\" cannot be created.",
                why: "Its directory does not exist.", hint: "Create it, or check the path.")
        }
        try OtherUserLink.refuse(Files.directory(of: path))
        // The right to write is tried now: the checks take long.
        try make { _ in }.remove()
    }

    func write(_ text: String) throws {
        _ = try make { try $0.write(Array(text.utf8)) }
    }

    /// Makes the file, and removes it if it cannot be filled.
    private func make(_ fill: (borrowing FileDescriptor) throws -> Void) throws -> OwnedName {
        let folder: OpenFolder
        do {
            folder = try OpenFolder(opening: Files.directory(of: path))
        } catch {
            throw SystemError(call: "open", path: path, errorNumber: error.errorNumber)
        }
        let name = Files.name(of: path)
        let file = try open(name, in: folder)
        let own = try OwnedName(name, in: folder, of: file.status().identity)
        do {
            try fill(file)
        } catch {
            try? own.remove()
            throw error
        }
        return own
    }

    private func open(_ name: String, in folder: OpenFolder) throws -> FileDescriptor {
        do {
            return try folder.newFile(name, permissions: 0o666)
        } catch  where error.isAlreadyThere {
            throw Self.taken(path)
        }
    }

    private static func taken(_ path: String) -> CommandFailure {
        CommandFailure(
            .usage, "exists", what: "\"\(path)\" is there already.", why: "A report never overwrites anything.",
            hint: "Name a file that does not exist yet.")
    }
}
