import QRCodes
import RecoveryShares
import StorePlatform
import StoreTools

/// The place for a recovery key or its shares: standard output or files, and QR codes of them.
struct RecoveryOutput {
    static let options = [
        SecretOutput.option,
        OptionSyntax("--shares", value: "N", "split the key in N shares, 2 to 16, of which some open the store"),
        OptionSyntax("--threshold", value: "K", "how many of the shares open the store, 2 or more"),
        OptionSyntax("--output-dir", value: "DIR", "write each share to a new file of mode 0600 in DIR"),
        OptionSyntax("--qr", "also print a QR code (needs libqrencode)"),
        OptionSyntax(
            "--qr-png", value: "F", "write the QR code to a new PNG image F of mode 0600; of shares, to F-1, F-2, ..."),
    ]

    /// How a key is split.
    struct Split {
        let count: Int
        let threshold: Int
    }

    /// Nil for a whole key.
    let split: Split?
    /// The texts: one output, or a file for each share.
    private let texts: [SecretOutput]
    private let images: [SecretOutput]
    private let printsCode: Bool

    /// - Throws: ``UsageError`` for options that do not fit together; what ``SecretOutput`` throws for a path; ``CommandFailure``
    ///   when a QR code was asked for and cannot be made.
    init(_ arguments: ParsedArguments) throws {
        split = try Self.split(arguments)
        printsCode = arguments.has("--qr")
        let count = split?.count
        if let folder = arguments.value("--output-dir") {
            guard let count else {
                throw UsageError(
                    "--output-dir is for shares.", hint: "Give --shares and --threshold too, or --output F.")
            }
            texts = try (1...count).map { number in
                try SecretOutput(file: "\(folder)/recovery-share-\(number)-of-\(count).txt", arguments)
            }
        } else {
            guard count == nil || arguments.value(SecretOutput.option.name) == nil else {
                throw UsageError("Shares are not written to one file.", hint: "Give --output-dir DIR, a file for each.")
            }
            texts = [try SecretOutput(arguments)]
        }
        images = try Self.images(arguments, count)
        if printsCode, texts[0].isFile || arguments.has("--json") {
            throw UsageError("--qr is for text on standard output.", hint: "Give --qr-png F for an image.")
        }
        if printsCode || !images.isEmpty, !QRCode.isAvailable {
            throw CommandFailure(
                .unsupported, "noQRCodes", what: "No QR code can be made.",
                why: "\(QRCode.Failure.noLibrary).".capitalizedFirst,
                hint: "Install it, or leave out --qr and --qr-png.")
        }
    }

    private static func split(_ arguments: ParsedArguments) throws(UsageError) -> Split? {
        let (count, threshold) = (arguments.value("--shares"), arguments.value("--threshold"))
        guard count != nil || threshold != nil else { return nil }
        guard let count = count.flatMap({ Int($0) }), let threshold = threshold.flatMap({ Int($0) }),
            RecoveryShare.counts.contains(count), (2...count).contains(threshold)
        else {
            throw UsageError(
                "--shares and --threshold do not fit together.",
                hint: "Give both: 2 to 16 shares, and a threshold of 2 up to all of them, as --shares 5 --threshold 3.")
        }
        return Split(count: count, threshold: threshold)
    }

    private static func images(_ arguments: ParsedArguments, _ count: Int?) throws -> [SecretOutput] {
        guard let path = arguments.value("--qr-png") else { return [] }
        guard let count else { return [try SecretOutput(file: path, arguments)] }
        let name = Files.name(of: path)
        let dot = name.lastIndex(of: ".").map { name.distance(from: $0, to: name.endIndex) } ?? 0
        return try (1...count).map { number in
            try SecretOutput(file: "\(path.dropLast(dot))-\(number)\(path.suffix(dot))", arguments)
        }
    }

    // MARK: Printing

    /// Prints the sheets as text, in the order of their numbers.
    ///
    /// - Parameter confirms: Whether one line of each sheet must be typed back at a terminal.
    func print(_ sheets: [RecoverySheet], confirms: Bool, at console: Console) throws {
        for (index, sheet) in sheets.enumerated() {
            let output = texts[min(index, texts.count - 1)]
            if !output.isFile { sheet.introduce(at: console) }
            try output.print(sheet.text, at: console)
            if printsCode {
                let hasColors = output.isTerminal && Self.allowsColors
                let code = try sheet.code().text(hasColors: hasColors)
                try code.withBytes { try output.print($0, at: console) }
            }
            if confirms, output.isTerminal, KeyOptions.canPrompt { try sheet.askBack() }
        }
        try printImages(sheets, at: console)
    }

    /// Prints a result of JSON that contains the sheets.
    func print(json: borrowing SecretText, _ sheets: [RecoverySheet], at console: Console) throws {
        try texts[0].print(json, at: console)
        try printImages(sheets, at: console)
    }

    private func printImages(_ sheets: [RecoverySheet], at console: Console) throws {
        for (sheet, output) in zip(sheets, images) {
            try sheet.code().png().withBytes { try output.print($0, at: console) }
        }
    }

    /// Whether colours are welcome. <https://no-color.org>
    private static var allowsColors: Bool { (ProcessInspector.environmentValue("NO_COLOR") ?? []).isEmpty }

    /// Whether the sheets are in files of their own, one in each.
    var hasFolder: Bool { split != nil && texts[0].isFile }

    /// Says which files were made, once the command has done its work.
    func report(at console: Console) throws {
        let paths = (texts + images).compactMap(\.path)
        guard let first = paths.first else { return }
        let json: JSON =
            paths.count == 1
            ? .object(["output": .string(first)]) : .object(["outputs": .array(paths.map(JSON.string))])
        try console.report(json: json, lines: paths.map { "wrote \($0)" })
    }

    /// Removes the files after a failure of the command, when they open nothing.
    func takeBack() { for output in texts + images { output.takeBack() } }
}
