import CipherStore
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing
import StoreTools

/// `key reveal STORE`: prints what any SQLCipher 4 needs to open the store.
struct KeyRevealCommand: Command {
    static let syntax = CommandSyntax(
        name: "key reveal",
        summary: "print the data key and salt, for the stock sqlcipher shell",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup")],
        options: [
            SecretOutput.option,
            OptionSyntax(
                "--yes", "print the key even where others see it: on a terminal, in a file that they may read"), .json,
            .quiet,
        ] + KeyOptions.all,
        examples: [
            "cipherctl key reveal app.db --key-file app.key --output open.sql; sqlcipher -init open.sql app.db",
            "(umask 077; cipherctl key reveal app.db --key-file app.key --json | jq -r .key | xxd -r -p > data.key)",
        ],
        notes: [
            "Anybody who has this key can read and write the store without the passphrase, also after the passphrase "
                + "was changed, until `cipherctl rotate` has run.",
            "A stock program may write to a store that others have open. It should leave checkpoints to them, as the "
                + "printed PRAGMA wal_autocheckpoint = 0 says: SQLite before 3.51.3 can lose commits otherwise.",
        ])

    private let path: String
    private let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
    }

    func run(_ console: Console) throws -> ExitCode {
        let secret = try SecretOutput(arguments)
        if secret.isTerminal {
            guard arguments.has("--yes") else {
                throw UsageError(
                    "The key would be shown on this terminal, and stay in its history.",
                    hint: "Give --output F, send it to another program, or add --yes.")
            }
            console.warn("the key of the store follows; clear the terminal afterwards")
        }
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        let choice = try StoreOpening.sidecar(path, key, onNotice: console.note)
        try SidecarAge(path, choice).requireNewest(console)
        // A backup is never written, and has no key log.
        if BackupBundle(holding: path) == nil,
            let notice = KeyLog(databasePath: StorePaths(path).database).note(
                .keyRevealed, authorizedBy: choice.keys.openedBy?.id)
        {
            console.note(notice)
        }
        try secret.print(self.text(choice.sidecar, choice.dataKey, isJSON: console.isJSON), at: console)
        try secret.report(at: console)
        return .ok
    }

    /// The key with its settings, as JSON or as the pragmas of SQLCipher.
    private func text(_ sidecar: Sidecar, _ key: DataKey, isJSON: Bool) -> SecretText {
        var text = SecretText(capacity: Self.textBytes)
        if isJSON {
            text.append("{\"key\": \"")
            key.withBytes { text.append(hex: $0) }
            text.append("\", " + String(JSON.object(settings(sidecar)).text.dropFirst()) + "\n")
        } else {
            text.append("PRAGMA key = \"x'")
            key.withBytes { text.append(hex: $0) }
            text.append("\(sidecar.salt.hex)'\";\n")
            for line in pragmas(sidecar) { text.append(line + "\n") }
        }
        return text
    }

    /// Room for the key and every pragma.
    private static let textBytes = 4096

    private func settings(_ sidecar: Sidecar) -> [JSON.Member] {
        var members: [JSON.Member] = [
            .init(name: "salt", value: .string(sidecar.salt.hex)),
            .init(name: "page_bytes", value: .int(sidecar.settings.pageBytes)),
            .init(name: "plaintext_header_bytes", value: .int(sidecar.settings.plaintextHeaderBytes)),
        ]
        if sidecar.settings.hmacHash != .sha512 {
            members.append(.init(name: "hmac_hash", value: .string(sidecar.settings.hmacHash.rawValue)))
        }
        return members
    }

    /// The lines after the one with the key.
    private func pragmas(_ sidecar: Sidecar) -> [String] {
        let settings = sidecar.settings
        var more = ["PRAGMA cipher_plaintext_header_size = \(settings.plaintextHeaderBytes);"]
        if settings.pageBytes != CipherSettings.sqlCipher4.pageBytes {
            more.append("PRAGMA cipher_page_size = \(settings.pageBytes);")
        }
        if settings.hmacHash != .sha512 {
            more.append("PRAGMA cipher_hmac_algorithm = HMAC_\(settings.hmacHash.rawValue.uppercased());")
        }
        if settings.kdfHash != .sha512 {
            more.append("PRAGMA cipher_kdf_algorithm = PBKDF2_HMAC_\(settings.kdfHash.rawValue.uppercased());")
        }
        let byKey = more + ["PRAGMA wal_autocheckpoint = 0;"]
        // SQLCipher does not know the passphrases of keyslots.
        guard sidecar.slotted == nil else { return byKey }
        let salt = "PRAGMA cipher_salt = \"x'\(sidecar.salt.hex)'\";"
        return byKey + ["-- With the passphrase instead of the key:", "-- PRAGMA key = 'the passphrase';"]
            + (more + [salt]).map { "-- \($0)" }
    }
}
