#if S3
    import Foundation

    #if canImport(FoundationXML)
        import FoundationXML
    #endif

    /// An element of an answer, with its children and its text.
    final class XMLElement {
        let name: String
        fileprivate(set) var children: [XMLElement] = []
        fileprivate(set) var text = ""

        init(_ name: String) { self.name = name }

        /// The text of the first child of a name; nil if there is none, or it is empty.
        func text(of name: String) -> String? {
            guard let text = children.first(where: { $0.name == name })?.text, !text.isEmpty else { return nil }
            return text
        }

        /// - Returns: nil for bytes that are no XML.
        static func parse(_ bytes: [UInt8]) -> XMLElement? {
            guard !bytes.isEmpty else { return nil }
            let builder = Builder()
            let parser = XMLParser(data: Data(bytes))
            parser.shouldResolveExternalEntities = false
            parser.delegate = builder
            // The parser of Linux accepts a document that ends within an element.
            return parser.parse() && builder.isComplete ? builder.root : nil
        }

        private final class Builder: NSObject, XMLParserDelegate {
            private(set) var root: XMLElement?
            private var open: [XMLElement] = []

            var isComplete: Bool { open.isEmpty }

            func parser(
                _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
                attributes: [String: String]
            ) {
                let element = XMLElement(name)
                if let parent = open.last { parent.children.append(element) } else { root = element }
                open.append(element)
            }

            func parser(
                _ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?
            ) { _ = open.popLast() }

            func parser(_ parser: XMLParser, foundCharacters string: String) { open.last?.text += string }
        }
    }
#endif
