"""From one format to another, with proof that nothing changed; what other programs do with the result is in `engines`.

Readers and writers of the formats themselves are `nextok.interop`.
"""

from nextok.conversion.comparison import Comparison
from nextok.conversion.convert import Conversion, ConvertProgress, export_model, import_model

__all__ = ["Comparison", "Conversion", "ConvertProgress", "export_model", "import_model"]
