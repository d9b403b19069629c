import StorePlatform
import StoreTools
import Synchronization

/// The place where a command prints a key: standard output, unless others could read it there, or a new file.
struct SecretOutput {
    static let option = OptionSyntax(
        "--output", value: "F", "write it to a new file F of mode 0600 instead of standard output")

    /// The file; nil for standard output.
    let path: String?
    private let written = Written()

    /// The file that was made.
    private final class Written: Sendable {
        private let name = Mutex<OwnedName?>(nil)

        func set(_ name: OwnedName) { self.name.withLock { $0 = name } }
        func remove() { try? name.withLock { $0.take() }?.remove() }
    }

    /// - Throws: ``UsageError`` when standard output is a file that group or others may read, or a file or named pipe of
    ///   another user, and neither `--output` nor `--yes` was given; ``CommandFailure`` when the path of `--output` exists; `ToolError` `storeName` when it is a name of the
    ///   store's own files.
    init(_ arguments: ParsedArguments) throws {
        path = arguments.value(Self.option.name)
        if let path {
            try Self.requireFree(path, arguments)
        } else if !arguments.has("--yes") {
            try Self.requirePrivate()
        }
    }

    /// One of several files of a command.
    ///
    /// - Throws: As ``init(_:)``.
    init(file path: String, _ arguments: ParsedArguments) throws {
        self.path = path
        try Self.requireFree(path, arguments)
    }

    private static func requireFree(_ path: String, _ arguments: ParsedArguments) throws {
        try ToolError.requireDirectory(for: path)
        if try Files.entryExists(path) { throw taken(path) }
        if let store = arguments.operands.first { try ToolError.requireForeign(path, to: store, "file of a key") }
    }

    /// Whether the key goes to a file of its own, and is not shown.
    var isFile: Bool { path != nil }

    /// Whether the key is printed at a terminal, where it is visible.
    var isTerminal: Bool { path == nil && Terminal.isTerminal(1) }

    /// Refuses a redirection that the shell has made readable for others: `> file` does that under the usual umask.
    private static func requirePrivate() throws {
        let file = try FileDescriptor(duplicating: 1, path: "standard output")
        let status = try file.status()
        try requireOwner(file, status)
        guard status.kind == .regular, status.permissions & 0o044 != 0 else { return }
        throw UsageError(
            "The key would be written to a file that its group or others may read (mode "
                + "\(String(status.permissions & 0o777, radix: 8))).",
            hint: "Give --output F, which makes a file of mode 0600; or remove the file and run it as "
                + "(umask 077; cipherctl ... > F); or add --yes.")
    }

    /// Refuses a file or a named pipe of another user, who reads what is written there whatever its mode is. A pipe without
    /// a name and a terminal were given by the program that started this one.
    private static func requireOwner(_ file: borrowing FileDescriptor, _ status: FileStatus) throws {
        let isNamedPipe = status.isPipe ? !file.isUnnamedPipe : false
        guard ![0, ProcessInspector.effectiveUser].contains(status.owner), status.kind == .regular || isNamedPipe else {
            return
        }
        throw UsageError(
            "The key would be written to a \(status.isPipe ? "pipe" : "file") of another user (\(status.owner)), who can "
                + "read it.",
            hint:
                "Give --output F, which makes a file of mode 0600; or find out who made it, and name a file that does not "
                + "exist yet; or add --yes.")
    }

    /// Prints the key, or writes it durably to a new file.
    ///
    /// - Parameter text: The key with what belongs to it, in the form that was requested.
    func print(_ text: borrowing SecretText, at console: Console) throws {
        try text.withBytes { try print($0, at: console) }
    }

    /// The same for the bytes of another buffer.
    func print(_ bytes: UnsafeRawBufferPointer, at console: Console) throws {
        if let path { return try write(bytes, to: path) }
        try console.output.flush()
        try FileDescriptor.write(bytes, toStandard: 1, path: "standard output")
    }

    /// Says where the key is, once the command has done its work; prints nothing where the key was printed.
    func report(at console: Console) throws {
        guard let path else { return }
        try console.report(json: .object(["output": .string(path)]), lines: ["wrote \(path)"])
    }

    /// Removes the file after a failure of the command, when its content opens nothing.
    func takeBack() {
        written.remove()
    }

    private func write(_ bytes: UnsafeRawBufferPointer, to path: String) throws {
        let folder = try OpenFolder(opening: Files.directory(of: path))
        let name = Files.name(of: path)
        let file = try Self.make(name, in: folder, for: path)
        let own = try OwnedName(name, in: folder, of: file.status().identity)
        do {
            // Restores what the umask removed.
            try file.setPermissions(FileAttributes.privatePermissions)
            try file.write(bytes)
            try file.synchronize()
            try folder.synchronize()
            written.set(own)
        } catch {
            try? own.remove()
            throw error
        }
    }

    private static func make(_ name: String, in folder: OpenFolder, for path: String) throws -> FileDescriptor {
        do {
            return try folder.newFile(name)
        } catch  where error.isAlreadyThere {
            throw taken(path)
        }
    }

    private static func taken(_ path: String) -> CommandFailure {
        CommandFailure(
            .usage, "exists", what: "\"\(path)\" is there already.", why: "A key never overwrites anything.",
            hint: "Name a file that does not exist yet.")
    }
}
