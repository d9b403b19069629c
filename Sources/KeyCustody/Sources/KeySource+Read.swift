import StoreCrypto
import StorePlatform

extension KeySource {
    /// Asks the source for its key.
    ///
    /// - Throws: `StoreError` `keyMissing` when the source has none to give, `invalidKey` when what it gives cannot be
    ///   a key or must not be used; ``SystemError`` when a file cannot be read; what a custom source throws.
    package func read() throws -> KeyMaterial {
        switch kind {
        case .passphrase(let box): return .passphrase(try Passphrase(box.secret.copy()))
        case .rawKey(let box): return .rawKey(try RawKey(box.secret.copy()))
        case .keyFile(let path): return try passphrase(KeyFile.contents(of: path, checkingPermissions: true))
        case .rawKeyFile(let path):
            let bytes = try KeyFile.contents(of: path, checkingPermissions: true)
            return .rawKey(try RawKey(bytes.withBytes { SecretBytes(copying: $0) }))
        case .fileDescriptor(let number):
            let file = try FileDescriptor(duplicating: number, path: description)
            return try passphrase(KeyFile.contents(of: file))
        case .command(let arguments, let timeout): return try passphrase(output(of: arguments, timeout))
        case .environment(let name): return try readEnvironment(name)
        case .systemdCredential(let name):
            return try passphrase(KeyFile.contents(of: credentialPath(name), checkingPermissions: false))
        case .prompt(let text, let confirmation): return try ask(text, confirmation)
        case .customPassphrase(_, let read): return .passphrase(try read())
        case .customRawKey(_, let read): return .rawKey(try read())
        }
    }

    /// Makes a passphrase of what a source gave, less one line end.
    private func passphrase(_ source: consuming WipedBuffer) throws -> KeyMaterial {
        var bytes = source
        guard bytes.count > 0 else { throw missing("It gave no bytes: it is empty, or was read before.") }
        if bytes.withBytes({ $0.last == UInt8(ascii: "\n") }) {
            bytes.removeLast(1)
            if bytes.withBytes({ $0.last == UInt8(ascii: "\r") }) { bytes.removeLast(1) }
            guard bytes.count > 0 else { throw missing("It holds an end of line and nothing else.") }
        }
        return try plainPassphrase(bytes)
    }

    private func plainPassphrase(_ bytes: borrowing WipedBuffer) throws(StoreError) -> KeyMaterial {
        .passphrase(try Passphrase(bytes.withBytes { SecretBytes(copying: $0) }))
    }

    private func missing(_ reason: String) -> StoreError {
        StoreError(
            .keyMissing, what: "The key source (\(description)) gave no key.", why: reason,
            remedy: "Check the source, or give the key in another way.")
    }

    private func readEnvironment(_ name: String) throws(StoreError) -> KeyMaterial {
        guard let value = ProcessInspector.environmentValue(name), !value.isEmpty else {
            throw missing("The variable is not set, or is empty.")
        }
        return .passphrase(try Passphrase(bytes: value))
    }

    private func credentialPath(_ name: String) throws(StoreError) -> String {
        // An empty one would name a file of the root directory.
        guard let folder = ProcessInspector.environmentValue("CREDENTIALS_DIRECTORY"), !folder.isEmpty else {
            throw missing("CREDENTIALS_DIRECTORY is not set: this process was not started by systemd with credentials.")
        }
        guard !name.isEmpty, name != ".", name != "..", !name.contains("/") else {
            throw StoreError(
                .invalidKey, what: "The name of the systemd credential cannot be used.",
                why: "It is empty or would name a file elsewhere.", remedy: "Give the name as the unit file does.")
        }
        return String(decoding: folder, as: UTF8.self) + "/" + name
    }

    private func output(of arguments: [String], _ timeout: Duration) throws(StoreError) -> WipedBuffer {
        do {
            return try Subprocess.output(of: arguments, limitBytes: Limits.keySourceBytes, timeout: timeout)
        } catch {
            switch error {
            case .cannotRun(let failure): throw missing("It could not be run: \(failure).")
            case .timedOut(let limit): throw missing("It did not end within \(limit) and was killed.")
            case .outputTooLong: throw missing("It printed more than 64 KiB.")
            case .exited(let status): throw missing("It ended with status \(status).")
            case .killed(let signal): throw missing("It was ended by signal \(signal).")
            }
        }
    }

    private func ask(_ text: String, _ confirmation: String?) throws(StoreError) -> KeyMaterial {
        let first = try typed(text)
        guard first.count > 0 else { throw missing("Nothing was typed.") }
        if let confirmation {
            let second = try typed(confirmation)
            let isSame = first.withBytes { first in second.withBytes { first.elementsEqual($0) } }
            guard isSame else { throw missing("What was typed the two times differs.") }
        }
        return try plainPassphrase(first)
    }

    private func typed(_ text: String) throws(StoreError) -> WipedBuffer {
        do {
            return try Terminal.readWithoutEcho(prompt: text)
        } catch {
            throw missing(error.description)
        }
    }
}
