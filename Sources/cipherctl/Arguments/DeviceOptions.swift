import KeyCustody
import KeyDevices
import StorePlatform
import TPM2Keys

/// The options of keys that a device keeps: a plugin, a PKCS#11 token or a TPM.
enum DeviceOptions {
    static let sources: [OptionSyntax] = [
        OptionSyntax(
            "--key-plugin", value: "NAME", "a plugin: the program cipherctl-key-NAME"),
        OptionSyntax("--key-pkcs11", value: "URI", "a key on a PKCS#11 token, as pkcs11:serial=0123;object=store"),
        OptionSyntax("--key-tpm2", "the TPM 2.0 of this machine"),
    ]

    /// The options that plugins and tokens need besides, for the key and the new key.
    static let settings: [OptionSyntax] = [
        OptionSyntax(
            "--plugin-option", value: "KEY=VALUE", "a setting of the plugin, once for each; it is no secret",
            isRepeatable: true),
        OptionSyntax("--pkcs11-module", value: "FILE", "the library of the token, unless the URI has module-path"),
        OptionSyntax(
            "--tpm2-pcrs", value: "P",
            "with a new key: the PCRs that must keep their values, as 7+11 (none unless given)"),
        OptionSyntax(
            "--tpm2-public-key", value: "F",
            "with a new key: an RSA public key in PEM; PCRs may have all values that it has signed"),
        OptionSyntax("--tpm2-public-key-pcrs", value: "P", "the PCRs whose values it signs (11 unless given)"),
        OptionSyntax(
            "--tpm2-signature", value: "F",
            "the signatures, by systemd-measure (tpm2-pcr-signature.json of systemd's folders unless given)"),
        OptionSyntax("--tpm2-pin", "with a new key: the TPM also asks for a PIN"),
        OptionSyntax(
            "--pin-file", value: "F", "the PIN of the token or TPM; mode 0600; without an option it is asked for"),
        OptionSyntax("--pin-fd", value: "N", "the PIN, read from an open file descriptor"),
        OptionSyntax("--pin-command", value: "C", "the PIN, printed by a program"),
    ]

    /// Whether an option names a device.
    static func isDevice(_ option: OptionSyntax) -> Bool { sources.contains { $0.name == option.name } }

    /// - Throws: ``UsageError``; `StoreError` `invalidKey`.
    static func plugin(_ name: String, _ arguments: ParsedArguments) throws -> KeySource {
        var options: [String: String] = [:]
        for text in arguments.values("--plugin-option") {
            let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard sides.count == 2, PluginName.isValid(sides[0]) else {
                throw UsageError(
                    "--plugin-option needs KEY=VALUE.", hint: "For example: --plugin-option identity=/etc/age.key")
            }
            guard options.updateValue(sides[1], forKey: sides[0]) == nil else {
                throw UsageError("--plugin-option \(sides[0]) was given twice.", hint: "Give it once.")
            }
        }
        return try .plugin(
            name, options: options, timeout: KeyOptions.commandTimeout(), environment: KeyOptions.commandEnvironment(),
            onNote: { Console.note($0) })
    }

    /// - Throws: ``UsageError``; `StoreError` `invalidKey`.
    static func token(_ uri: String, _ arguments: ParsedArguments) throws -> KeySource {
        let module = arguments.value("--pkcs11-module").map { Files.absolute($0) }
        return try .pkcs11(uri, module: module, pin: pin(arguments), onNote: { Console.note($0) })
    }

    /// A PIN that no other device takes is meant for the TPM: a new keyslot asks for it without `--tpm2-pin` too.
    ///
    /// - Parameter option: As it was given.
    /// - Throws: ``UsageError``.
    static func tpm2(_ arguments: ParsedArguments, called option: String) throws -> KeySource {
        let pcrs = try pcrs(arguments.value("--tpm2-pcrs") ?? "", of: "--tpm2-pcrs")
        let publicKey = arguments.value("--tpm2-public-key").map { Files.absolute($0) }
        let signed = arguments.value("--tpm2-public-key-pcrs")
        if signed != nil, publicKey == nil {
            throw UsageError(
                "--tpm2-public-key-pcrs needs the key that signs the PCRs.", hint: "Give --tpm2-public-key FILE.")
        }
        let pin = try pin(arguments, of: "TPM")
        let hasOther =
            option != "--key-tpm2" && (arguments.has("--key-tpm2") || arguments.value("--key-pkcs11") != nil)
        return .tpm2(
            pcrs: pcrs, publicKey: publicKey,
            publicKeyPCRs: try self.pcrs(signed ?? "11", of: "--tpm2-public-key-pcrs"),
            signatures: arguments.value("--tpm2-signature").map { Files.absolute($0) },
            asksPIN: arguments.has("--tpm2-pin") || isPINGiven(arguments) && !hasOther, pin: pin,
            onNote: { Console.note($0) })
    }

    private static func pcrs(_ text: String, of option: String) throws(UsageError) -> [Int] {
        let words = text.split(separator: "+", omittingEmptySubsequences: false)
        let pcrs = words.compactMap { word in Int(word).flatMap { (0..<24).contains($0) ? $0 : nil } }
        guard text.isEmpty || pcrs.count == words.count else {
            throw UsageError("\(option) needs numbers from 0 to 23.", hint: "For example: \(option) 7+11")
        }
        return pcrs
    }

    private static func isPINGiven(_ arguments: ParsedArguments) -> Bool {
        pinOptions.contains { arguments.value($0) != nil }
    }

    private static let pinOptions = ["--pin-file", "--pin-fd", "--pin-command"]

    private static func pin(_ arguments: ParsedArguments, of device: String = "PKCS#11 token") throws -> KeySource? {
        let given = pinOptions.filter { arguments.value($0) != nil }
        guard given.count <= 1 else {
            throw UsageError(
                "The PIN was given by several options: \(given.joined(separator: ", ")).", hint: "Give one.")
        }
        if let name = given.first, let value = arguments.value(name) {
            return try KeyOptions.source("--key-" + name.dropFirst("--pin-".count), value, called: name)
        }
        return KeyOptions.canPrompt ? .prompt("PIN of the \(device): ") : nil
    }
}
